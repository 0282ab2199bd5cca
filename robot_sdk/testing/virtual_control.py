"""A control loop without a thread, in virtual time: every tick is exact and takes no real time."""

from __future__ import annotations

from collections.abc import Callable

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import ActionSource, Pace
from robot_sdk.clock import VirtualClock
from robot_sdk.control_core import ControlCore, SourceRun
from robot_sdk.estop import EstopLatch
from robot_sdk.loop_state import LoopState
from robot_sdk.robot import Robot
from robot_sdk.tick_driver import TickDriver, guard_for


class VirtualControl:
    """The decisions and the driver of `ControlLoop`, stepped by hand."""

    def __init__(
        self,
        robot: Robot,
        clock: VirtualClock,
        *,
        pace: Pace = "realtime",
        guard: ActionGuard | None = None,
    ) -> None:
        self._clock = clock
        self._estop = EstopLatch()
        self._core = ControlCore(guard_for(robot, guard), self._estop)
        self._driver = TickDriver(robot, self._core, clock, pace)

    def submit(self, source: ActionSource, timeout_s: float | None = None) -> SourceRun:
        """As `ControlLoop.run` begins. The source starts with the next tick."""
        return self._core.submit(source, timeout_s)

    def cancel(self, run: SourceRun) -> None:
        """As if the caller of `ControlLoop.run` had gone away."""
        self._core.cancel(run)

    def estop(self, reason: str) -> None:
        self._estop.set(reason)

    def rearm(self) -> None:
        self._estop.rearm()

    def state(self) -> LoopState:
        return self._driver.state()

    def due_s(self) -> float | None:
        """When the next tick is due. None: lockstep without work."""
        return self._driver.due_s()

    def tick(self, count: int = 1) -> None:
        """Jump to the next tick and run it, `count` times. Lockstep without work does nothing."""
        for _ in range(count):
            due_s = self._driver.due_s()
            if due_s is None:
                return
            self._clock.sleep_until(due_s)
            self._driver.run()

    def finish(
        self, run: SourceRun, max_ticks: int = 10_000, before: Callable[[], None] | None = None
    ) -> SourceRun:
        """Tick until `run` has ended, calling `before` ahead of every tick.

        Raises:
            AssertionError: It has not ended after `max_ticks` ticks.
        """
        for _ in range(max_ticks):
            if run.is_finished:
                return run
            if before is not None:
                before()
            self.tick()
        raise AssertionError(f"source {run.source.name!r} still runs after {max_ticks} ticks")
