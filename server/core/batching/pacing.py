"""When robots should ask, so that their observations arrive together.

Planned batches lie at anchor + index * base (see `slots`). Three things bring robots onto the plan:

- A robot's grid is laid before the first tick of its policy tool, so that a tick falls on a planned
  batch. Afterwards the grid stays where it is: nothing stretches or shortens a control period.
- A robot asks at the last of its ticks that reaches its planned batch. That is at most as late as
  its own rows ask for; a robot that has come out of step gets back by asking some whole ticks
  earlier, using rows beyond those it would have executed.
- The plan follows the robots: the anchor moves towards the middle one of a batch, so that common
  drift does not pull plan and robots apart; and at once where a batch that was late for all has
  moved them by whole ticks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any

from robot_sdk.latency_window import LatencyWindow
from server.core.batching.interface import StreamRate, Waiting
from server.core.batching.phase import RobotPhase
from server.core.batching.slots import SlotPlan

#: Shortest notice for a robot's first tick: the answer has to reach it and the tool has to start.
NOTICE_S = 0.02
#: Robots whose arrivals tell how far these lie behind the ticks that were asked for.
_NUM_OFFSETS = 8
#: Part of a small difference between plan and robots that the plan makes up for per batch.
_FOLLOWING = 0.125
#: Observations whose lateness tells the network's jitter, and the share of them that it covers.
_NUM_LATENESSES = 64
_JITTER_QUANTILE = 0.7


class Pacer:
    """The plan, and where each robot's grid lies in it. Knows nothing of workers and latency."""

    def __init__(self) -> None:
        self.plan = SlotPlan()
        self._anchor_s: float | None = None
        self._phases: dict[int, RobotPhase] = {}
        self._asked_for_s: dict[int, float] = {}
        self._offsets_s: deque[float] = deque(maxlen=_NUM_OFFSETS)
        self._lateness = LatencyWindow(_NUM_LATENESSES, _JITTER_QUANTILE)
        #: How much later than at best observations arrive; a quantile of recent ones.
        self.jitter_s = 0.0

    def join(self, stream: int, rate: StreamRate, now_s: float) -> float:
        """Take a stream in. Returns in how many seconds its first tick should be."""
        self.plan.add(stream, rate)
        self._phases[stream] = RobotPhase(rate)
        offset_s = self._usual_offset_s(rate)
        earliest_s = now_s + NOTICE_S
        if self._anchor_s is None:
            self._anchor_s = earliest_s + offset_s
        slot = self.plan.slot(stream)
        index = math.ceil((earliest_s + offset_s - self._anchor_s) / self._base_s - 1e-9)
        tick_s = self._time_s(slot.first_from(index)) - offset_s
        self._asked_for_s[stream] = tick_s
        return tick_s - now_s

    def leave(self, stream: int) -> None:
        """The stream is gone; the others keep their phases."""
        self.plan.remove(stream)
        self._phases.pop(stream, None)
        self._asked_for_s.pop(stream, None)
        if not self._phases:
            self._anchor_s = None

    def arrived(self, item: Waiting[Any]) -> float | None:
        """An observation came. Returns when its tick arrives at the earliest. None: not paced."""
        phase = self._phases.get(item.stream)
        if phase is None:
            return None
        step = phase.observe(item)
        tick_s = phase.tick_s(step)
        if phase.is_settled:
            # What is later than a period is a robot out of step, or one whose clock runs slowly;
            # time kept free for it would be lost to all others, and saves it no step.
            period_s = phase.rate.period_s
            self._lateness.add(min(item.arrived_s - tick_s, period_s))
            self.jitter_s = self._lateness.value_s() or 0.0
            asked_for_s = self._asked_for_s.pop(item.stream, None)
            if asked_for_s is not None:
                self._offsets_s.append(_nearest(tick_s - asked_for_s, period_s))
        return tick_s

    def started(self, items: Sequence[Waiting[Any]]) -> None:
        """A batch was started: the plan follows it if most of the fastest robots are in it."""
        phases = (self._phases.get(i.stream) for i in items if self._is_in_every_batch(i.stream))
        members = [phase for phase in phases if phase is not None and phase.last_step is not None]
        num_steady = sum(self._is_in_every_batch(stream) for stream in self._phases)
        if 2 * len(members) <= num_steady or self._anchor_s is None:
            return
        middle_s = median(phase.last_tick_s for phase in members)
        index = round((middle_s - self._anchor_s) / self._base_s)
        shift_s = middle_s - self._time_s(index)
        if abs(shift_s) > min(phase.rate.period_s for phase in members) / 2:
            self._anchor_s += shift_s
        elif all(phase.is_settled for phase in members):
            self._anchor_s += _FOLLOWING * shift_s

    def next_step(self, stream: int, tolerance_s: float, latency_s: float) -> int | None:
        """Step of the observation that the stream should send next.

        The last one whose observation can be there no later than `tolerance_s` after a planned
        batch of the stream, and whose chunk comes `latency_s` after it before the rows run out.
        None: unknown.
        """
        phase = self._phases.get(stream)
        if phase is None or phase.last_step is None or self._anchor_s is None:
            return None
        rate, slot = self.plan.rates[stream], self.plan.slot(stream)
        latency_steps = math.ceil(latency_s * rate.control_hz - 1e-9)
        free_steps = max(1, rate.horizon - latency_steps)
        last_step = phase.last_step + min(rate.cycle_steps, free_steps)
        # Batches that are too late for any allowed step are passed over; one period covers those
        # between the last allowed tick and the next.
        end_s = phase.tick_s(last_step + 1)
        index = slot.first_from(math.ceil((end_s - self._anchor_s) / self._base_s))
        while (step := phase.step_by(self._time_s(index) + tolerance_s)) > last_step:
            index -= slot.every
        return step if step > phase.last_step else last_step

    def tick_s(self, stream: int, step: int) -> float:
        """When the stream's observation of `step` arrives at the earliest; its phase is known."""
        return self._phases[stream].tick_s(step)

    def step_from(self, stream: int, time_s: float) -> int:
        """First step of the stream that arrives no earlier than `time_s`; its phase is known."""
        return self._phases[stream].step_from(time_s)

    def _is_in_every_batch(self, stream: int) -> bool:
        """It has the base as its cycle, so it cannot come later than the plan says.

        Slower streams can: they come at their last tick before it. So the plan follows the others.
        """
        return stream in self._phases and self.plan.slot(stream).every == 1

    @property
    def _base_s(self) -> float:
        base_s = self.plan.base_s
        assert base_s is not None, "a plan with streams has a base"
        return base_s

    def _time_s(self, index: int) -> float:
        assert self._anchor_s is not None, "a plan with streams has an anchor"
        return self._anchor_s + index * self._base_s

    def _usual_offset_s(self, rate: StreamRate) -> float:
        """How far arrivals lie behind the ticks that were asked for: the network, both ways."""
        if not self._offsets_s:
            return 0.0
        return min(max(0.0, median(self._offsets_s)), rate.period_s / 2)


def _nearest(offset_s: float, period_s: float) -> float:
    """The same offset within half a period around 0."""
    return offset_s - round(offset_s / period_s) * period_s
