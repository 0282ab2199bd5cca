"""Tick counters of the control loop, which are totals, as increments of the instruments."""

from __future__ import annotations

from robot_sdk.telemetry.metrics import Metrics, TickKind


class TickMetrics:
    """Adds to the tick counters what is new since the last call. For one control loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._seen: dict[TickKind, int] = {}

    def update(self, *, acted: int, starved: int, start_wait: int, idle: int, overrun: int) -> None:
        """Take the loop's totals so far. Called after every tick, so it costs a comparison each."""
        totals: dict[TickKind, int] = {
            "acted": acted,
            "starved": starved,
            "start_wait": start_wait,
            "idle": idle,
            "overrun": overrun,
        }
        for kind, total in totals.items():
            new = total - self._seen.get(kind, 0)
            if new > 0:
                self._metrics.count_ticks(kind, new)
        self._seen = totals
