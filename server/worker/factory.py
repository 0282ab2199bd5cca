"""Objects that a configuration names as `module:callable`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from robot_sdk.errors import nearest

#: What the settings that name a factory say, too.
IMPORTABLE = (
    "the module must be importable: installed, on PYTHONPATH, or in the folder that the server is "
    "started from"
)


class FactoryError(Exception):
    """The named factory cannot be found or fails. The message is one line and says which."""


def build(path: str, options: Mapping[str, Any]) -> Any:
    """Call `module:callable` with `options` as keyword arguments.

    Raises:
        FactoryError: No such module or callable, or it raised.
    """
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        # Only if it is this module that is missing, and not one that it imports.
        is_missing = f"{module_name}.".startswith(f"{error.name}.")
        hint = f"; {IMPORTABLE}" if is_missing else ""
        raise FactoryError(f"cannot import {module_name} for {path}: {error}{hint}") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        near = nearest(name, [n for n in vars(module) if not n.startswith("_")])
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise FactoryError(f"{module_name} has no callable {name}{hint}")
    try:
        return factory(**options)
    except Exception as error:
        raise FactoryError(f"{path} failed: {type(error).__name__}: {error}") from error
