"""Objects that a configuration names as `module:callable`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from robot_sdk.errors import nearest


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
        raise FactoryError(f"cannot import {module_name} for {path}: {error}") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        near = nearest(name, [n for n in vars(module) if not n.startswith("_")])
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise FactoryError(f"{module_name} has no callable {name}{hint}")
    try:
        return factory(**options)
    except Exception as error:
        raise FactoryError(f"{path} failed: {type(error).__name__}: {error}") from error
