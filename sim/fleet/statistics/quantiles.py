"""Quantiles that say when a sample is too small to have them."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: By name, as results carry them; "max" beside them.
FRACTIONS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def least_sample(fraction: float) -> int:
    """Values that a sample needs, so that at least one is expected at or above the quantile."""
    # 1 / (1 - 0.9) is a little under 10 in floats, 1 / (1 - 0.999) a little under 1000.
    return math.ceil(1.0 / (1.0 - fraction) - 1e-6)


def quantile(values: Sequence[float], fraction: float) -> float | None:
    """Linear between the two nearest values (Hyndman and Fan's type 7, as numpy's default).

    Args:
        values: In any order.
        fraction: From 0 up to, but not including, 1.

    Returns:
        None where fewer than `least_sample` values are there.
    """
    return _of_sorted(sorted(values), fraction)


def quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """`FRACTIONS` and "max" by name; None where the sample is too small or empty."""
    ordered = sorted(values)
    found = {name: _of_sorted(ordered, fraction) for name, fraction in FRACTIONS.items()}
    return {**found, "max": ordered[-1] if ordered else None}


def _of_sorted(ordered: Sequence[float], fraction: float) -> float | None:
    if len(ordered) < least_sample(fraction):
        return None
    place = fraction * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    # Of this form, so that it never leaves [low, high] by rounding.
    return min(high, low + (place - below) * (high - low))
