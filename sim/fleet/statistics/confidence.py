"""How sure a mean over seeds is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: 97.5% points of Student's distribution by degrees of freedom, from 1 on: half the width of a 95%
#: interval in standard errors. Beyond the end the next smaller entry is used, which is wider.
_STUDENT_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class SeedMean:
    """A mean over seeds.

    Attributes:
        num_seeds: With a value; at least 1.
        low, high: 95% confidence interval of the mean; None with one seed, which cannot say.
        least, most: Of the values.
    """

    mean: float
    num_seeds: int
    low: float | None
    high: float | None
    least: float
    most: float


def seed_mean(values: Sequence[float | None]) -> SeedMean | None:
    """Mean and Student's 95% interval of the values that are known; None: none is.

    It takes runs with different seeds as independent and their mean as nearly normal. Where some
    runs collapse and others do not, the mean says little: give the share that collapsed, too.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    low = high = None
    if len(known) > 1:
        variance = math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1)
        half = student_975(len(known) - 1) * math.sqrt(variance / len(known))
        low, high = mean - half, mean + half
    return SeedMean(mean, len(known), low, high, min(known), max(known))


def student_975(degrees: int) -> float:
    """97.5% point of Student's distribution.

    Args:
        degrees: Of freedom, at least 1.
    """
    return _STUDENT_975[min(degrees, len(_STUDENT_975)) - 1]


def wilson_interval(num_hits: int, num_runs: int, z: float = 1.96) -> tuple[float, float]:
    """Interval of a share, for example of runs that collapsed (Wilson 1927), 95% with z of 1.96.

    Unlike the usual one it says something at 0 and at all of few runs. (0, 1) without a run.
    """
    if num_runs == 0:
        return 0.0, 1.0
    share = num_hits / num_runs
    weight = 1.0 + z * z / num_runs
    middle = (share + z * z / (2 * num_runs)) / weight
    half = z / weight * math.sqrt(share * (1 - share) / num_runs + (z / (2 * num_runs)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)
