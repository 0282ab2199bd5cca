"""Runs one tick: times it, asks the core, tells the robot."""

from __future__ import annotations

from collections.abc import Collection

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import Act, Hold, HoldReason, Pace, Tick
from robot_sdk.clock import Clock
from robot_sdk.control_core import ControlCore
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.lateness import LatenessHistogram
from robot_sdk.loop_state import LoopState
from robot_sdk.observation import Observation
from robot_sdk.robot import Robot
from robot_sdk.tick_grid import TickGrid

#: Longest single wait for a source in lockstep, so that an emergency stop or a call is noticed.
LOCKSTEP_WAIT_S = 0.05


class TickDriver:
    """The control loop without its thread. Whoever calls `run` is the control thread."""

    def __init__(self, robot: Robot, core: ControlCore, clock: Clock, pace: Pace) -> None:
        """The grid begins now: in real time, tick 0 is due at once.

        Raises:
            InvalidArgumentError: Unknown pace, or a control rate that is not above 0.
        """
        if pace not in ("realtime", "lockstep"):
            raise InvalidArgumentError(
                "not a pace", field="pace", value=pace, allowed=("realtime", "lockstep")
            )
        self._robot = robot
        self._core = core
        self._clock = clock
        self._pace: Pace = pace
        self._control_hz = robot.control_hz
        self._grid = TickGrid(clock.now_s(), self._control_hz)
        self._lateness = LatenessHistogram()
        self._commanded_s: float | None = None

    def due_s(self) -> float | None:
        """When `run` has something to do, on the clock; it may have passed already.

        None: not before work is submitted.
        """
        now_s = self._clock.now_s()
        if self._pace == "lockstep":
            return now_s if self._core.is_busy else None
        index = self._grid.next_index(self._core.step, now_s, self._commanded_s)
        return self._grid.deadline_s(index)

    def run(self) -> bool:
        """Run the tick that is due now. False, and nothing happens, if none is."""
        if self._pace == "lockstep":
            return self._run_lockstep()
        now_s = self._clock.now_s()
        index = self._grid.next_index(self._core.step, now_s, self._commanded_s)
        if self._grid.deadline_s(index) > now_s:
            return False
        if self._moves_grid(index):
            return False
        # From the tick that was due, not from the one that is run: a skipped tick is a late one.
        self._lateness.add(now_s - self._grid.deadline_s(self._core.step))
        self._core.skip(index - self._core.step)
        tick = self._tick(now_s)
        self._command(tick, self._core.decide(tick))
        return True

    def state(self) -> LoopState:
        """Counters and lateness so far."""
        return self._core.state(self._lateness.stats())

    @property
    def overrun_ticks(self) -> int:
        """Ticks skipped so far."""
        return self._core.overrun_ticks

    def hold(self) -> None:
        """Hold once, outside the grid: the loop ends."""
        self._robot.hold()

    def _moves_grid(self, index: int) -> bool:
        """Before a source's first tick: put the grid where the source wants it.

        Tick `index` is due; after a shift it is due again, less than a period later.
        """
        phase_s = self._core.take_grid_phase_s()
        if phase_s is None:
            return False
        delay_s = self._grid.delay_to_phase_s(index, phase_s)
        if delay_s == 0.0:
            return False
        self._grid.delay(delay_s)
        self._core.grid_shifted(delay_s)
        return True

    def _run_lockstep(self) -> bool:
        if not self._core.is_busy:
            return False
        tick = self._tick(self._clock.now_s())
        command = self._core.decide(tick)
        if command is None:
            return True
        if isinstance(command, Hold) and command.reason is not HoldReason.SETTLING:
            self._core.wait(LOCKSTEP_WAIT_S, tick.now_s)
            return True
        self._command(tick, command)
        return True

    def _tick(self, now_s: float) -> Tick:
        return Tick(self._core.step, now_s, self._pace, self._control_hz, self._observe)

    def _observe(self, keys: Collection[str] | None) -> Observation:
        return self._robot.observe(keys)

    def _command(self, tick: Tick, command: Act | Hold | None) -> None:
        """Act, or hold: also when the action was stopped at the last moment, or failed."""
        if isinstance(command, Act) and self._is_too_old(tick):
            command = Hold(HoldReason.STARVED)
        if isinstance(command, Act):
            if self._act(tick, command):
                return
            command = None
            # In lockstep the world stands still by itself; a hold would move it on.
            if self._pace == "lockstep":
                return
        self._commanded_s = self._clock.now_s()
        try:
            self._robot.hold()
        except Exception as error:  # noqa: BLE001 - reported, and the next tick holds again
            self._core.robot_failed(error, tick.now_s)
            command = None
        self._core.commanded(command)

    def _is_too_old(self, tick: Tick) -> bool:
        """The source took so long that its action's step is over.

        A policy's row belongs to one step. A scripted source looks at the robot in every tick, so
        its action is as good as its observation, and is executed late.
        """
        if self._pace == "lockstep" or not self._core.runs_policy:
            return False
        return self._clock.now_s() >= self._grid.deadline_s(tick.step + 1)

    def _act(self, tick: Tick, command: Act) -> bool:
        """Whether the robot took the action."""
        if not self._core.may_act(tick):
            return False
        self._commanded_s = self._clock.now_s()
        try:
            self._robot.act(command.action)
        except Exception as error:  # noqa: BLE001 - reported to the caller of run()
            self._core.robot_failed(error, tick.now_s)
            return False
        self._core.commanded(command)
        return True


def guard_for(robot: Robot, guard: ActionGuard | None) -> ActionGuard:
    """The guard of a loop: the given one if it fits the robot, else one that knows the width."""
    if guard is None:
        return ActionGuard.unlimited(robot.action_dim)
    if guard.action_dim != robot.action_dim:
        raise InvalidArgumentError(
            f"the robot takes actions of width {robot.action_dim}",
            field="guard",
            value=f"width {guard.action_dim}",
        )
    return guard
