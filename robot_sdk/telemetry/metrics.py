"""The instruments of a robot program: few, second-scaled, and without labels that grow.

No instrument carries an episode, robot or run id, because each value of such a label is a series
that a monitoring system keeps for ever. Ids belong on spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View

TickKind = Literal["acted", "starved", "start_wait", "idle", "overrun"]

BRAIN_LATENCY = "robot.brain.latency"
CHUNK_ROUND_TRIP = "robot.chunk.round_trip"
TICK_LATENESS = "robot.tick.lateness"
ENV_STEP_GAP = "robot.gap.env_step"
TICKS_PREFIX = "robot.ticks."

#: Upper bounds in seconds. The SDK's default buckets are meant for milliseconds and would put
#: everything below 5 s into one.
BRAIN_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
CHUNK_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.16, 0.25, 0.5, 1.0, 2.0, 5.0)
LATENESS_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)
#: The first bucket holds the intervals in which the robot did not move at all.
GAP_BUCKETS_S = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)

_BUCKETS_S: dict[str, Sequence[float]] = {
    BRAIN_LATENCY: BRAIN_BUCKETS_S,
    CHUNK_ROUND_TRIP: CHUNK_BUCKETS_S,
    TICK_LATENESS: LATENESS_BUCKETS_S,
    ENV_STEP_GAP: GAP_BUCKETS_S,
}


def views() -> list[View]:
    """Views that give each histogram its buckets. A meter provider must be made with them."""
    return [
        View(
            instrument_name=name,
            aggregation=ExplicitBucketHistogramAggregation(boundaries=bounds),
        )
        for name, bounds in _BUCKETS_S.items()
    ]


class Metrics:
    """Records what a robot program does. All durations in seconds. Thread-safe, never blocks."""

    def __init__(self, meter: Meter) -> None:
        self._brain_latency = meter.create_histogram(
            BRAIN_LATENCY, unit="s", description="One decision of the brain, seen by the robot."
        )
        self._chunk_round_trip = meter.create_histogram(
            CHUNK_ROUND_TRIP, unit="s", description="Observation sent to chunk received."
        )
        self._tick_lateness = meter.create_histogram(
            TICK_LATENESS, unit="s", description="Start of a control tick after its deadline."
        )
        self._env_step_gap = meter.create_histogram(
            ENV_STEP_GAP,
            unit="s",
            description="Control steps between two brain calls while a tool was active, held ones "
            "included, divided by the control rate.",
        )
        self._ticks = {
            kind: meter.create_counter(
                TICKS_PREFIX + kind, unit="{tick}", description=f"Control ticks: {text}."
            )
            for kind, text in _TICK_TEXT.items()
        }

    def brain_latency(self, latency_s: float) -> None:
        """One `Decide`, from sending to the last word."""
        self._brain_latency.record(latency_s)

    def chunk_round_trip(self, round_trip_s: float) -> None:
        """One observation, from sending to the arrival of its chunk."""
        self._chunk_round_trip.record(round_trip_s)

    def tick_lateness(self, lateness_s: float) -> None:
        """One control tick: its start minus its deadline."""
        self._tick_lateness.record(lateness_s)

    def env_step_gap(self, gap_s: float) -> None:
        """One interval between two brain calls: control steps / control rate."""
        self._env_step_gap.record(gap_s)

    def count_ticks(self, kind: TickKind, num_ticks: int = 1) -> None:
        """Add control ticks of one kind."""
        self._ticks[kind].add(num_ticks)


_TICK_TEXT: dict[TickKind, str] = {
    "acted": "an action was executed",
    "starved": "a policy was active and had no valid row",
    "start_wait": "a policy was active and its first chunk had not arrived",
    "idle": "nothing was active",
    "overrun": "skipped because an earlier tick took too long",
}
