"""One setting of a configuration section: default, documentation and bounds in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

Options = dict[str, Any]


def setting(
    default: Any,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """A dataclass field with its documentation and its bounds (inclusive)."""
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum, "choices": tuple(choices)}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)
