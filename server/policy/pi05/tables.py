"""Frozen dataclasses from tables of JSON or TOML, every field checked and named."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from robot_sdk.errors import InvalidArgumentError, nearest

_T = TypeVar("_T")


def build_from_table(kind: type[_T], values: object, where: str, field: str) -> _T:
    """Make one.

    Args:
        kind: A dataclass whose fields are text, numbers, truth values, choices (`Literal`), other
            such dataclasses, tuples of one of these (lists in the table), or one of these or None.
        values: What the table holds.
        where: What to call the table in messages.
        field: The errors' `field`.

    Raises:
        InvalidArgumentError: A field is unknown, missing or of another type.
    """
    if not isinstance(values, Mapping):
        raise wrong(where, f"is {values!r}", field, ("a table",))
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            close = nearest(str(name), known, 1)
            hint = f"did you mean {close[0]}?" if close else ""
            raise wrong(f"{where}: {name}", "is not a field", field, sorted(known), hint)
    for name, f in known.items():
        if name not in values and f.default is dataclasses.MISSING:
            raise wrong(f"{where}: {name}", "is missing", field)
    hints = typing.get_type_hints(kind)
    return kind(**{n: _value(v, hints[n], f"{where}: {n}", field) for n, v in values.items()})


def wrong(
    where: str, problem: str, field: str, allowed: Iterable[object] = (), hint: str = ""
) -> InvalidArgumentError:
    """The error that names a place in a table."""
    return InvalidArgumentError(
        f"{field} {where} {problem}", field=field, allowed=allowed, hint=hint
    )


def _value(value: object, hint: Any, where: str, field: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise wrong(where, f"is {value!r}", field, ("a list",))
        inner = typing.get_args(hint)[0]
        return tuple(_value(v, inner, f"{where}[{i}]", field) for i, v in enumerate(value))
    if origin is typing.Literal:
        allowed = typing.get_args(hint)
        if value not in allowed:
            raise wrong(where, f"is {value!r}", field, allowed)
        return value
    if origin is types.UnionType:
        if value is None:
            return None
        return _value(value, typing.get_args(hint)[0], where, field)
    if dataclasses.is_dataclass(hint):
        return build_from_table(typing.cast("type[Any]", hint), value, where, field)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise wrong(where, f"is {value!r}", field, (hint.__name__,))
    return value
