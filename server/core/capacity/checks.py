"""Bounds of what the rules are given, so that a typing error is not planned with."""

from __future__ import annotations

import math

from robot_sdk.errors import InvalidArgumentError


def whole(name: str, value: int, least: int, most: int) -> int:
    """`value` if it is a whole number within the bounds (inclusive).

    Raises:
        InvalidArgumentError: Not whole, or out of bounds.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not least <= value <= most:
        raise InvalidArgumentError(
            "out of range",
            field=name,
            value=value,
            allowed=(f"a whole number from {least} to {most}",),
        )
    return value


def positive(name: str, value: float, most: float) -> float:
    """`value` if it is finite, above 0 and at most `most`.

    Raises:
        InvalidArgumentError: It is not; NaN and infinity are not.
    """
    if not math.isfinite(value) or not 0 < value <= most:
        raise InvalidArgumentError(
            "out of range", field=name, value=value, allowed=(f"above 0, at most {most:g}",)
        )
    return float(value)
