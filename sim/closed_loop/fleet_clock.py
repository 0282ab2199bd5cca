"""A clock whose waiting lets a fleet of virtual robots go on."""

from __future__ import annotations

from robot_sdk.clock import VirtualClock
from sim.fleet.event_loop import EventLoop


class FleetClock(VirtualClock):
    """The virtual time of an event loop, for a robot that is stepped from outside of it.

    Whoever sleeps on it runs every event that is due until then, so that the server's end of the
    robot's streams and the other robots live in the same time.
    """

    def __init__(self, loop: EventLoop) -> None:
        super().__init__(loop.clock.now_s())
        self._loop = loop

    def now_s(self) -> float:
        return self._loop.clock.now_s()

    def advance(self, duration_s: float) -> None:
        if duration_s < 0:
            raise ValueError(f"duration_s is {duration_s}; time cannot go back, pass a value >= 0")
        self._loop.run_until(self.now_s() + duration_s)

    def sleep_until(self, deadline_s: float) -> None:
        if deadline_s > self.now_s():
            self._loop.run_until(deadline_s)
