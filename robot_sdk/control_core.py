"""Which command a tick gets: the decision part of the control loop, without thread or robot."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import (
    Act,
    ActionSource,
    Done,
    Hold,
    HoldReason,
    ReportsStatus,
    SourceKind,
    SourceStatus,
    Tick,
    WantsPhase,
)
from robot_sdk.errors import DeadlineExceededError, InvalidArgumentError
from robot_sdk.estop import EstopLatch
from robot_sdk.lateness import LatenessStats
from robot_sdk.loop_state import LoopState, SourceReport


@dataclass
class _Counts:
    commanded: int = 0
    acted: int = 0
    starved: int = 0
    start_wait: int = 0
    settling: int = 0
    overrun: int = 0

    def add(self, command: Act | Hold) -> None:
        self.commanded += 1
        if isinstance(command, Act):
            self.acted += 1
        elif command.reason is HoldReason.STARVED:
            self.starved += 1
        elif command.reason is HoldReason.START_WAIT:
            self.start_wait += 1
        else:
            self.settling += 1


@dataclass
class SourceRun:
    """One accepted source, from acceptance to its end. Written by the control thread only,
    except `is_cancelled`.

    Attributes:
        name, kind: Of the source. Read once, so that a report never depends on its code.
        reporter: The source again if it can report its status.
        epoch: Epoch of the emergency stop in which it was accepted, and may act.
        timeout_s: Seconds from its first tick after which it is ended. None: no limit.
        grid_phase_s: Moment that the grid should go through before its first tick. None: as it is.
        report: Set when it has ended.
        error: What ended it; None if it ended by `Done`.
    """

    source: ActionSource
    name: str
    kind: SourceKind
    reporter: ReportsStatus | None
    epoch: int
    timeout_s: float | None = None
    grid_phase_s: float | None = None
    is_cancelled: bool = False
    report: SourceReport | None = None
    error: Exception | None = None
    counts: _Counts = field(default_factory=_Counts)
    first_step: int | None = None
    started_s: float | None = None

    @property
    def is_finished(self) -> bool:
        """It has ended and its source was stopped."""
        return self.report is not None

    def is_overdue(self, now_s: float) -> bool:
        """Its time is up. Never before its first tick."""
        if self.timeout_s is None or self.started_s is None:
            return False
        return now_s - self.started_s >= self.timeout_s


class ControlCore:
    """Holds at most one source, asks it once a tick, and counts.

    `submit`, `cancel` and `state` may be called from any thread; everything else belongs to the
    control thread. It reads no clock: time comes in with the tick.
    """

    def __init__(
        self,
        guard: ActionGuard,
        estop: EstopLatch,
        on_finished: Callable[[], None] = lambda: None,
    ) -> None:
        """No source yet; the next tick has address 0.

        Args:
            guard: Last check of every action.
            estop: The latch that ends everything.
            on_finished: Called on the control thread whenever a run has ended.
        """
        self._guard = guard
        self._estop = estop
        self._on_finished = on_finished
        self._lock = threading.Lock()
        self._run: SourceRun | None = None
        self._status = SourceStatus()
        self._step = 0
        self._total = _Counts()
        self._idle_ticks = 0
        self._policy_steps = 0
        self._scripted_steps = 0
        self._num_grid_shifts = 0
        self._grid_shift_s = 0.0
        self._robot_error = ""

    @property
    def step(self) -> int:
        """Address of the next tick."""
        return self._step

    @property
    def is_busy(self) -> bool:
        """A source is waiting or active."""
        return self._run is not None

    @property
    def runs_policy(self) -> bool:
        """The source is a policy, whose actions belong to exactly one step."""
        run = self._run
        return run is not None and run.kind == "policy"

    def submit(self, source: ActionSource, timeout_s: float | None = None) -> SourceRun:
        """Accept a source; it starts with the next tick.

        Raises:
            EstopError: The emergency stop is set.
            InvalidArgumentError: Another source is active.
        """
        name, kind = source.name, source.kind
        phase_s = source.grid_phase_s if isinstance(source, WantsPhase) else None
        with self._lock:
            epoch = self._estop.enter()
            if self._run is not None:
                raise InvalidArgumentError(
                    f"source {self._run.name!r} is still active; one at a time",
                    field="source",
                    value=name,
                )
            # Looked up once: a protocol check costs as much as the rest of a tick.
            reporter = source if isinstance(source, ReportsStatus) else None
            self._run = SourceRun(source, name, kind, reporter, epoch, timeout_s, phase_s)
            return self._run

    def take_grid_phase_s(self) -> float | None:
        """Where the source that has not begun yet wants the grid. Given once, then None."""
        run = self._run
        if run is None or run.grid_phase_s is None or run.first_step is not None:
            return None
        phase_s, run.grid_phase_s = run.grid_phase_s, None
        return phase_s if math.isfinite(phase_s) else None

    def grid_shifted(self, delay_s: float) -> None:
        """The grid was moved later for a source that is about to begin."""
        with self._lock:
            self._num_grid_shifts += 1
            self._grid_shift_s += delay_s

    def cancel(self, run: SourceRun) -> None:
        """End a run whose caller no longer waits: at most one more action."""
        run.is_cancelled = True

    @property
    def overrun_ticks(self) -> int:
        """Ticks skipped so far."""
        return self._total.overrun

    def skip(self, num_ticks: int) -> None:
        """Ticks passed without a command because the loop was late."""
        with self._lock:
            self._step += num_ticks
            self._total.overrun += num_ticks
            if self._run is not None and self._run.first_step is not None:
                self._run.counts.overrun += num_ticks

    def decide(self, tick: Tick) -> Act | Hold | None:
        """The command of this tick. None: no source commands, hold in real time.

        A source that raises, or whose action is refused by the guard, is stopped here.
        """
        run = self._run
        if run is None:
            return None
        if not self._may_go_on(run, tick):
            return None
        try:
            if run.first_step is None:
                run.first_step, run.started_s = tick.step, tick.now_s
                run.source.start(tick)
            command = run.source.next(tick)
            if isinstance(command, Act):
                command = Act(self._guard.check_action(command.action))
            elif not isinstance(command, (Hold, Done)):
                raise InvalidArgumentError(
                    f"source {run.name!r} gave no command",
                    field="next",
                    value=type(command).__name__,
                    allowed=("Act", "Hold", "Done"),
                )
            if run.reporter is not None:
                self._status = run.reporter.status()
        except Exception as error:  # noqa: BLE001 - handed to the caller of run(), the loop lives
            self._finish(run, tick.now_s, error=error)
            return None
        if isinstance(command, Done):
            self._finish(run, tick.now_s, result=command.result)
            return None
        return command

    def may_act(self, tick: Tick) -> bool:
        """A last look right before the robot is told: was it stopped while the source thought?"""
        return self._run is not None and self._may_go_on(self._run, tick)

    def commanded(self, command: Act | Hold | None) -> None:
        """The robot was told: act, hold for the source, or (None) hold without one."""
        with self._lock:
            self._step += 1
            run = self._run
            if command is None or run is None:
                self._total.commanded += 1
                self._idle_ticks += 1
                return
            self._total.add(command)
            run.counts.add(command)
            if run.kind == "policy":
                self._policy_steps += 1
            else:
                self._scripted_steps += 1

    def wait(self, timeout_s: float, now_s: float) -> None:
        """Lockstep: let the source wait for something better to say."""
        run = self._run
        if run is None:
            return
        try:
            run.source.wait(timeout_s)
        except Exception as error:  # noqa: BLE001 - handed to the caller of run()
            self._finish(run, now_s, error=error)

    def robot_failed(self, error: Exception, now_s: float) -> None:
        """The robot raised: the active source ends with that error."""
        self._robot_error = f"{type(error).__name__}: {error}"
        if self._run is not None:
            self._finish(self._run, now_s, error=error)

    def close(self, error: Exception, now_s: float) -> None:
        """The loop ends: so does the source."""
        if self._run is not None:
            self._finish(self._run, now_s, error=error)

    def state(self, lateness: LatenessStats | None = None) -> LoopState:
        """A consistent snapshot of the counters."""
        with self._lock:
            run, total = self._run, self._total
            return LoopState(
                step=self._step,
                commanded_steps=total.commanded,
                acted_steps=total.acted,
                policy_steps=self._policy_steps,
                scripted_steps=self._scripted_steps,
                starved_ticks=total.starved,
                start_wait_ticks=total.start_wait,
                settling_ticks=total.settling,
                idle_ticks=self._idle_ticks,
                overrun_ticks=total.overrun,
                num_grid_shifts=self._num_grid_shifts,
                grid_shift_s=self._grid_shift_s,
                tool="" if run is None else run.name,
                buffered_steps=self._status.buffered_steps,
                steps_left=self._status.steps_left,
                estopped=self._estop.is_set,
                robot_error=self._robot_error,
                lateness=LatenessStats() if lateness is None else lateness,
            )

    def _may_go_on(self, run: SourceRun, tick: Tick) -> bool:
        """False if the run has just been ended from outside."""
        if run.epoch != self._estop.epoch:
            self._finish(run, tick.now_s, error=self._estop.error())
            return False
        if run.is_cancelled:
            self._finish(run, tick.now_s, error=DeadlineExceededError("the caller stopped waiting"))
            return False
        if run.is_overdue(tick.now_s):
            error = DeadlineExceededError(
                f"source {run.name!r} did not finish within timeout_s",
                field="timeout_s",
                value=run.timeout_s,
            )
            self._finish(run, tick.now_s, error=error)
            return False
        return True

    def _finish(
        self,
        run: SourceRun,
        now_s: float,
        *,
        result: object = None,
        error: Exception | None = None,
    ) -> None:
        try:
            run.source.stop()
        except Exception as stop_error:  # noqa: BLE001 - the first error is the one that matters
            error = error or stop_error
        counts = run.counts
        with self._lock:
            self._run = None
            self._status = SourceStatus()
            run.error = error
            run.report = SourceReport(
                name=run.name,
                kind=run.kind,
                result=result if error is None else None,
                steps=counts.commanded,
                acted=counts.acted,
                starved_ticks=counts.starved,
                start_wait_ticks=counts.start_wait,
                settling_ticks=counts.settling,
                overrun_ticks=counts.overrun,
                first_step=run.first_step,
                started_s=run.started_s,
                ended_s=None if run.started_s is None else now_s,
            )
        self._on_finished()
