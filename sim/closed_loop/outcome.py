"""What became of many episodes under one condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sim.closed_loop.episode import ClosedLoopRecord
from sim.fleet.statistics import wilson_interval


@dataclass(frozen=True)
class Outcome:
    """Of one condition. Times are virtual seconds from admission, ticks of the policy's tools.

    Attributes:
        successes, episodes: Counts.
        success_low, success_high: Wilson's 95% interval of the share.
        success_s: Quartiles of the time to success, an episode without one counting as never; None:
            a quartile that never succeeded.
        ended_s: Quartiles of the time until the agent was done, successful or not.
        brain_share: Of all time, spent waiting for brain turns.
        starved_share: Starved ticks of those since a tool's first chunk.
        starved_ticks, start_wait_ticks, steps, turns: Means over episodes.
        chunk_latency_s: Median of the episodes' medians. None: no chunks.
        door_wait_s: Quartiles, apart from all the others.
        left_out_share: Control steps that were counted and not computed.
    """

    successes: int
    episodes: int
    success_low: float
    success_high: float
    success_s: tuple[float | None, float | None, float | None]
    ended_s: tuple[float | None, float | None, float | None]
    brain_share: float
    starved_share: float
    starved_ticks: float
    start_wait_ticks: float
    steps: float
    turns: float
    chunk_latency_s: float | None
    door_wait_s: tuple[float | None, float | None, float | None]
    left_out_share: float

    @property
    def success_share(self) -> float:
        """Of the episodes."""
        return self.successes / self.episodes


def outcome(records: Sequence[ClosedLoopRecord]) -> Outcome:
    """Of at least one record.

    Raises:
        ValueError: There is none.
    """
    if not records:
        raise ValueError("no record; run at least one episode of every condition")
    successes = sum(record.success for record in records)
    low, high = wilson_interval(successes, len(records))
    latencies_s = [r.chunk_latency_p50_s for r in records if r.chunk_latency_p50_s is not None]
    starved = sum(record.starved_ticks for record in records)
    counted = sum(record.policy_steps - record.start_wait_ticks for record in records)
    all_steps = sum(record.steps + record.idle_ticks for record in records)
    return Outcome(
        successes=successes,
        episodes=len(records),
        success_low=low,
        success_high=high,
        success_s=quartiles([_time_to_success(record) for record in records]),
        ended_s=quartiles([record.ended_s for record in records]),
        brain_share=_ratio(sum(r.brain_s for r in records), sum(r.ended_s for r in records)),
        starved_share=_ratio(starved, counted),
        starved_ticks=_mean(records, lambda record: record.starved_ticks),
        start_wait_ticks=_mean(records, lambda record: record.start_wait_ticks),
        steps=_mean(records, lambda record: record.steps),
        turns=_mean(records, lambda record: record.turns),
        chunk_latency_s=quartiles(latencies_s)[1],
        door_wait_s=quartiles([record.door_wait_s for record in records]),
        left_out_share=_ratio(sum(r.left_out_steps for r in records), all_steps),
    )


def quartiles(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Nearest-rank quartiles, so that "never" (infinity) is not mixed with times. None: never, or
    no values.
    """
    ordered = sorted(values)

    def at(fraction: float) -> float | None:
        if not ordered:
            return None
        value = ordered[math.ceil(fraction * len(ordered)) - 1]
        return value if math.isfinite(value) else None

    return at(0.25), at(0.5), at(0.75)


def _time_to_success(record: ClosedLoopRecord) -> float:
    """Only an episode that counts as a success has one."""
    if not record.success or record.success_s is None:
        return math.inf
    return record.success_s


def _mean(records: Sequence[ClosedLoopRecord], of: Callable[[ClosedLoopRecord], Any]) -> float:
    return float(sum(of(record) for record in records)) / len(records)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
