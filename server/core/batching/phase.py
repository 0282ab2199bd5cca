"""Where a robot's control grid lies, as the server sees it."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from server.core.batching.interface import StreamRate, Waiting

#: Observations that the estimate looks back on: long enough to have met the network at its
#: quickest, short enough to follow clocks that drift by some 100 ppm.
WINDOW = 16


class RobotPhase:
    """Arrival times of a robot's observations, freed from network jitter.

    An observation of step s arrives at start + s / control_hz + delay. The earliest of the recent
    ones has had the smallest delay, so it tells best where the grid lies; "tick" below is always
    the moment at which an observation of that tick arrives at the earliest.
    """

    def __init__(self, rate: StreamRate) -> None:
        self.rate = rate
        self._starts_s: deque[float] = deque(maxlen=WINDOW)
        self._last_step: int | None = None
        # Steps are counted from here: a number with many digits would round times away.
        self._origin_step = 0

    @property
    def is_settled(self) -> bool:
        """There were enough observations to know the phase to within a part of the jitter."""
        return len(self._starts_s) >= WINDOW // 2

    @property
    def last_step(self) -> int | None:
        """Step of the latest observation. None: there was none."""
        return self._last_step

    def observe(self, item: Waiting[Any]) -> int:
        """Take in the arrival of an observation. Returns its control step.

        A robot that does not say its step is taken to have come at a whole tick.
        """
        step = item.control_step
        if step is None:
            step = self._origin_step
            if self._starts_s:
                step += round((item.arrived_s - min(self._starts_s)) * self.rate.control_hz)
        if self._starts_s and abs(item.arrived_s - self.tick_s(step)) > self.rate.cycle_s:
            self._starts_s.clear()
        if not self._starts_s:
            self._origin_step = step
        self._starts_s.append(item.arrived_s - self._since_origin_s(step))
        self._last_step = step
        return step

    def tick_s(self, step: int) -> float:
        """When an observation of `step` arrives at the earliest.

        Raises:
            ValueError: No observation has arrived.
        """
        return min(self._starts_s) + self._since_origin_s(step)

    @property
    def last_tick_s(self) -> float:
        """When the latest observation would have arrived at the earliest."""
        return self.tick_s(self._origin_step if self._last_step is None else self._last_step)

    def step_by(self, time_s: float) -> int:
        """Last step whose observation can be there by `time_s`."""
        # 1 ns covers float rounding of tick times that are equal on paper.
        elapsed_s = time_s - min(self._starts_s) + 1e-9
        return self._origin_step + math.floor(elapsed_s * self.rate.control_hz)

    def step_from(self, time_s: float) -> int:
        """First step whose observation cannot be there before `time_s`."""
        # 1 ns as above. Computed, not searched for: a policy may take thousands of steps.
        elapsed_s = time_s - min(self._starts_s) - 1e-9
        return self._origin_step + math.ceil(elapsed_s * self.rate.control_hz)

    def _since_origin_s(self, step: int) -> float:
        return (step - self._origin_step) * self.rate.period_s
