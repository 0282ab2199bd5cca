"""Strict reading of the arguments that a model wrote for a tool.

Nothing is guessed or repaired: a model that is told exactly what was wrong writes it right the
next time, and a guess would move a robot. Every error names argument, value and what is allowed.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from robot_sdk.errors import InvalidArgumentError, nearest
from robot_sdk.tool_schema import (
    BooleanType,
    ChoiceType,
    IntegerType,
    ListType,
    NumberType,
    OptionalType,
    Range,
    Signature,
    TextType,
    TupleType,
    ValueType,
)

#: Arguments longer than this are refused unread; no tool of a robot needs as much.
MAX_ARGUMENTS_CHARS = 65_536


def parse_arguments(text: str) -> dict[str, Any]:
    """The JSON object in `text`. An empty text counts as no arguments.

    Raises:
        InvalidArgumentError: Not exactly one JSON object, a name twice, NaN or Infinity, a number
            outside the range of a double, or too long.
    """
    if len(text) > MAX_ARGUMENTS_CHARS:
        raise InvalidArgumentError(
            f"the arguments have {len(text)} characters", allowed=[f"up to {MAX_ARGUMENTS_CHARS}"]
        )
    if not text.strip():
        return {}
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=_unique_pairs,
        )
    except InvalidArgumentError:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the arguments are not valid JSON: {error}",
            value=text,
            hint="write one JSON object and nothing after it",
        ) from error
    if not isinstance(value, dict):
        raise InvalidArgumentError(
            "the arguments are not a JSON object", value=text, allowed=['{"name": value, ...}']
        )
    return value


def check_arguments(signature: Signature, arguments: dict[str, Any]) -> dict[str, Any]:
    """The Python values for a call. Arguments left out keep the function's defaults.

    Raises:
        InvalidArgumentError: An argument is unknown, missing, of a wrong type or out of bounds.
    """
    known = signature.parameters
    for name in arguments:
        if name not in known:
            close = nearest(name, known, 1)
            raise InvalidArgumentError(
                "no such argument",
                field=name,
                value=_show(arguments[name]),
                allowed=known or ["no arguments"],
                hint=f"did you mean {close[0]!r}?" if close else "",
            )
    values = {}
    for parameter in known.values():
        if parameter.name in arguments:
            values[parameter.name] = check_value(
                parameter.type, parameter.name, arguments[parameter.name]
            )
        elif parameter.required:
            raise InvalidArgumentError(
                "missing argument", field=parameter.name, allowed=[describe(parameter.type)]
            )
    return values


def check_value(value_type: ValueType, path: str, value: Any) -> Any:
    """`value` as the function will receive it.

    Args:
        value_type: What is allowed.
        path: Name for messages, for example "target[2]".
        value: As read from JSON.

    Raises:
        InvalidArgumentError: It is not allowed.
    """
    if isinstance(value_type, OptionalType):
        return None if value is None else check_value(value_type.inner, path, value)
    if isinstance(value_type, ChoiceType):
        for json_value, python_value in value_type.values:
            # 1 == True in Python, not in JSON.
            if type(json_value) is type(value) and json_value == value:
                return python_value
        _refuse(value_type, path, value)
    if isinstance(value_type, BooleanType):
        return value if isinstance(value, bool) else _refuse(value_type, path, value)
    if isinstance(value_type, (IntegerType, NumberType)):
        return _check_number(value_type, path, value)
    if isinstance(value_type, TextType):
        if not isinstance(value, str) or not _within(value_type.bounds, len(value)):
            _refuse(value_type, path, value)
        return value
    return _check_items(value_type, path, value)


def describe(value_type: ValueType) -> str:
    """What is allowed, in words."""
    if isinstance(value_type, BooleanType):
        return "true or false"
    if isinstance(value_type, IntegerType):
        return _bounded("a whole number", value_type.bounds)
    if isinstance(value_type, NumberType):
        return _bounded("a number", value_type.bounds)
    if isinstance(value_type, TextType):
        if value_type.bounds == Range():
            return "text"
        return f"text of {value_type.bounds.describe()} characters"
    if isinstance(value_type, ChoiceType):
        return " | ".join(_show(json_value) for json_value, _ in value_type.values)
    if isinstance(value_type, ListType):
        items = f"each {describe(value_type.item)}"
        if value_type.bounds == Range():
            return f"a list, {items}"
        return f"a list of {value_type.bounds.describe()} items, {items}"
    if isinstance(value_type, TupleType):
        return f"a list of exactly [{'; '.join(describe(item) for item in value_type.items)}]"
    return f"{describe(value_type.inner)}, or null"


def _check_items(value_type: ListType | TupleType, path: str, value: Any) -> Any:
    if not isinstance(value, list):
        _refuse(value_type, path, value)
    if isinstance(value_type, ListType):
        if not _within(value_type.bounds, len(value)):
            _refuse(value_type, path, value)
        items = [check_value(value_type.item, f"{path}[{i}]", v) for i, v in enumerate(value)]
        return tuple(items) if value_type.as_tuple else items
    if len(value) != len(value_type.items):
        _refuse(value_type, path, value)
    pairs = enumerate(zip(value_type.items, value, strict=False))
    return tuple(check_value(item, f"{path}[{i}]", v) for i, (item, v) in pairs)


def _check_number(value_type: IntegerType | NumberType, path: str, value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _refuse(value_type, path, value)
    try:
        number = float(value)
    except OverflowError:
        _refuse(value_type, path, value)
    # Compared as written: float(2**53 + 1) would round onto a bound.
    if not math.isfinite(number) or not _within(value_type.bounds, value):
        _refuse(value_type, path, value)
    if isinstance(value_type, NumberType):
        return number
    if number != int(number):
        _refuse(value_type, path, value)
    return int(value)


def _within(bounds: Range, value: float) -> bool:
    above = bounds.low is None or value >= bounds.low
    return above and (bounds.high is None or value <= bounds.high)


def _bounded(noun: str, bounds: Range) -> str:
    return noun if bounds == Range() else f"{noun}, {bounds.describe()}"


def _refuse(value_type: ValueType, path: str, value: Any) -> NoReturn:
    raise InvalidArgumentError(
        "not allowed", field=path, value=_show(value), allowed=[describe(value_type)]
    )


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _refuse_constant(constant: str) -> NoReturn:
    raise InvalidArgumentError(
        f"the arguments hold {constant}, which JSON does not have", allowed=["finite numbers"]
    )


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidArgumentError(
            "the arguments hold a number that is too large", value=text, allowed=["finite numbers"]
        )
    return value


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise InvalidArgumentError("the arguments name this twice", field=name)
        result[name] = value
    return result
