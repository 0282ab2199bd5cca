"""When fleets collapse, with runs that ended before they did: Kaplan and Meier's estimate.

A run that ends without a collapse is censored: it says that the time is longer than the run, and is
neither a collapse nor proof that there will be none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from robot_sdk.errors import InvalidArgumentError


@dataclass(frozen=True)
class Duration:
    """Time until something happened to one run.

    Attributes:
        time_s: Until it happened, or until the run ended without it. At least 0.
        happened: False: censored.
    """

    time_s: float
    happened: bool

    @classmethod
    def observed(cls, time_s: float | None, end_s: float) -> Duration:
        """`time_s`, or, where it is None, censored at `end_s`."""
        return cls(end_s, happened=False) if time_s is None else cls(time_s, happened=True)


@dataclass(frozen=True)
class SurvivalStep:
    """From `time_s` on, up to the next step.

    Attributes:
        at_risk: Runs that had neither collapsed nor ended just before.
        events: Runs that collapsed at this time; at least 1.
        survival: Estimated share that lasts longer than `time_s`.
        low, high: Pointwise confidence band of it.
    """

    time_s: float
    at_risk: int
    events: int
    survival: float
    low: float
    high: float


@dataclass(frozen=True)
class SurvivalCurve:
    """Kaplan and Meier's estimate.

    Attributes:
        steps: By time. Before the first, and without any, the survival is 1.
        censored_s: Times at which runs ended without it, ascending.
        num_runs: All of them.
        confidence: Of the bands.
    """

    steps: tuple[SurvivalStep, ...]
    censored_s: tuple[float, ...]
    num_runs: int
    confidence: float

    def survival_at(self, time_s: float) -> float:
        """Estimated share that lasts longer than `time_s`."""
        return next((s.survival for s in reversed(self.steps) if s.time_s <= time_s), 1.0)

    @property
    def median_s(self) -> float | None:
        """First time at which half or fewer are left; None: it never gets there."""
        return next((step.time_s for step in self.steps if step.survival <= 0.5 + 1e-12), None)

    def outline(self, end_s: float) -> tuple[list[float], list[float]]:
        """Times and survival of the drawn line's steps, from (0, 1) to `end_s`."""
        times_s = [0.0, *(step.time_s for step in self.steps), end_s]
        shares = [1.0, *(step.survival for step in self.steps)]
        return times_s, [*shares, shares[-1]]


def kaplan_meier(durations: Iterable[Duration], confidence: float = 0.95) -> SurvivalCurve:
    """Product over the times t of events of (1 - events at t / at risk at t).

    Runs censored at the time of an event count as at risk there. The variance is Greenwood's; the
    bands are those of log(-log S) (Kalbfleisch and Prentice), which stay between 0 and 1. Where the
    estimate has reached 0, Greenwood's variance does not exist: the band there keeps the upper end
    of the step before, and its lower end is 0.

    Raises:
        InvalidArgumentError: A time is negative or not finite, or the confidence is not in (0, 1).
    """
    runs = sorted(durations, key=lambda run: run.time_s)
    _check(runs, confidence)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    steps: list[SurvivalStep] = []
    survival, greenwood = 1.0, 0.0
    for time_s in sorted({run.time_s for run in runs if run.happened}):
        at_risk = sum(run.time_s >= time_s for run in runs)
        events = sum(run.happened and run.time_s == time_s for run in runs)
        survival *= 1.0 - events / at_risk
        if events < at_risk:
            greenwood += events / (at_risk * (at_risk - events))
            low, high = _band(survival, greenwood, z)
        else:
            survival = low = 0.0
            high = steps[-1].high if steps else 1.0
        steps.append(SurvivalStep(time_s, at_risk, events, survival, low, high))
    censored_s = tuple(run.time_s for run in runs if not run.happened)
    return SurvivalCurve(tuple(steps), censored_s, len(runs), confidence)


def _band(survival: float, greenwood: float, z: float) -> tuple[float, float]:
    """S ** exp(-+ z * sqrt(greenwood) / log S), for S strictly between 0 and 1."""
    spread = z * math.sqrt(greenwood) / abs(math.log(survival))
    # Beyond e^700 floats end; the band is then 0 or 1 anyway.
    factor = math.exp(min(spread, 700.0))
    return survival**factor, survival ** (1.0 / factor)


def _check(runs: Sequence[Duration], confidence: float) -> None:
    for run in runs:
        if not math.isfinite(run.time_s) or run.time_s < 0:
            raise InvalidArgumentError(
                "out of range", field="time_s", value=run.time_s, allowed=("finite, at least 0",)
            )
    if not 0.0 < confidence < 1.0:
        raise InvalidArgumentError(
            "out of range", field="confidence", value=confidence, allowed=("between 0 and 1",)
        )
