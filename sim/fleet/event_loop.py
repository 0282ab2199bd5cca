"""Virtual time that jumps from one event to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from robot_sdk.clock import VirtualClock


class EventLoop:
    """Runs events in the order of their times; equal times in the order in which they were set.

    Attributes:
        clock: Shows the time of the event that runs.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_events = 0

    def at(self, time_s: float, event: Callable[[], None]) -> None:
        """Run `event` at a time; at once, after what is already due, if it has passed."""
        self._num_events += 1
        time_s = max(time_s, self.clock.now_s())
        heapq.heappush(self._events, (time_s, self._num_events, event))

    def run_until(self, end_s: float) -> None:
        """Run everything that is due up to and including `end_s`."""
        while self._events and self._events[0][0] <= end_s:
            time_s, _, event = heapq.heappop(self._events)
            self.clock.sleep_until(time_s)
            event()
        self.clock.sleep_until(end_s)
