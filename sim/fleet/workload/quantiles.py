"""Samples with given quantiles: evenly spread over the ranks, so that a sample has them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_NORMAL = NormalDist()
_BISECTIONS = 60


def normal_scores(ranks: FloatArray) -> FloatArray:
    """Standard normal deviates of ranks in (0, 1)."""
    return np.array([_NORMAL.inv_cdf(float(rank)) for rank in ranks])


def strata(num: int, rng: np.random.Generator | None = None) -> FloatArray:
    """One rank in each of `num` equal parts of (0, 1), ascending: the middle, or drawn."""
    inside = 0.5 if rng is None else rng.uniform(0.01, 0.99, num)
    return (np.arange(num) + inside) / num


def ranked(scores: FloatArray, values: FloatArray) -> FloatArray:
    """`values`, handed out so that the largest score gets the largest value."""
    out = np.empty(len(values))
    out[np.argsort(scores, kind="stable")] = np.sort(values)
    return out


@dataclass(frozen=True)
class QuantileCurve:
    """Value over rank through given points; straight in the value's logarithm between them.

    Attributes:
        ranks: Ascending; the first and the last bound the sample.
        values: At those ranks, over zero.
        over_normal_scores: Straight over the normal score of the rank rather than over the rank:
            long tails, as latencies have.
    """

    ranks: tuple[float, ...]
    values: tuple[float, ...]
    over_normal_scores: bool = False

    def __call__(self, ranks: FloatArray) -> FloatArray:
        """Values at ranks between the first and the last."""
        at, points = ranks, np.array(self.ranks)
        if self.over_normal_scores:
            at, points = normal_scores(ranks), normal_scores(points)
        return np.exp(np.interp(at, points, np.log(self.values)))


def two_sided(median: float, total: float, lower_sigma: float, num: int) -> FloatArray:
    """`num` ascending values with a median and a sum: log-normal, wider above than below.

    `lower_sigma` is the spread under the median; the one over it follows from the sum.
    """
    scores = normal_scores(strata(num))

    def values(upper_sigma: float) -> FloatArray:
        return median * np.exp(np.where(scores < 0, lower_sigma, upper_sigma) * scores)

    low, high = 0.0, 3.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if values(middle).sum() < total else (low, middle)
    return values(high)


def whole(values: FloatArray, total: int, least: int) -> npt.NDArray[np.int64]:
    """Ascending values as whole numbers with a sum; what rounding leaves over goes to the top.

    Raises:
        ValueError: So many values of `least` and more have no such sum.
    """
    if total < least * len(values):
        raise ValueError(f"{len(values)} values of at least {least} do not add up to {total}")
    rounded = np.maximum(np.rint(values), least).astype(np.int64)
    while (missing := total - int(rounded.sum())) != 0:
        may_change = np.flatnonzero(rounded > least) if missing < 0 else np.arange(len(rounded))
        changed = may_change[-min(abs(missing), max(1, len(may_change) // 4)) :]
        rounded[changed] += np.sign(missing)
    return np.sort(rounded)


def median(values: Sequence[float] | FloatArray) -> float:
    """The median."""
    return float(np.median(np.asarray(values, dtype=float)))
