"""How evenly a fleet's robots are served."""

from __future__ import annotations

from collections.abc import Sequence


def jain_index(values: Sequence[float]) -> float:
    """(sum x)^2 / (n * sum x^2), after Jain, Chiu and Hawe (1984). 1 for no values or zeros.

    1 if all have the same, 1/n if one has all. Of counts it says little while they are small: six
    robots with one episode and six with two are as even as can be at that moment, and have 0.9.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
