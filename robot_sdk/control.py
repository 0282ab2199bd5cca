"""The control loop: one thread that alone talks to the robot."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import ActionSource, Pace
from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.control_core import ControlCore, SourceRun
from robot_sdk.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LoopStoppedError,
    RobotSdkError,
)
from robot_sdk.estop import EstopLatch
from robot_sdk.loop_state import LoopState, SourceReport
from robot_sdk.overrun_watch import OverrunWatch
from robot_sdk.robot import Robot, check_robot
from robot_sdk.tick_driver import TickDriver, guard_for

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)

#: How long `run` waits beyond its timeout for a robot call to return before it gives up waiting.
TIMEOUT_GRACE_S = 1.0
#: How long leaving the loop waits for a robot call to return.
STOP_TIMEOUT_S = 5.0
#: How long leaving the loop waits for a log line to be written.
_LOG_TIMEOUT_S = 1.0


class _Job:
    """A function to be run on the control thread, and what came of it."""

    def __init__(self, function: Callable[[Robot], object], epoch: int) -> None:
        self.function = function
        self.epoch = epoch
        self.is_done = False
        self.result: object = None
        self.error: BaseException | None = None


class ControlLoop:
    """Runs action sources on a robot at its control rate. Use it as a context manager.

    Real time: ticks begin at t0 + k / control_hz, computed from t0 and so without drift; a tick
    more than half a period late is skipped and counted, never made up for; a tick without an
    action holds. Lockstep: no sleeping and no idle ticks, the world stands still while nobody
    acts.

    Skipped ticks are logged, at once and then at most every 10 s, unless a `call` caused them.

    `run`, `call`, `estop`, `rearm` and `state` may be called from any thread. All calls of the
    robot, of sources and of `on_state` happen on the one control thread.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        clock: Clock = SYSTEM_CLOCK,
        pace: Pace = "realtime",
        guard: ActionGuard | None = None,
        on_state: Callable[[LoopState], None] | None = None,
    ) -> None:
        """A loop that starts with `__enter__`.

        Args:
            robot: Called from the control thread only, from `__enter__` to `__exit__`.
            clock: Real time, except in tests.
            pace: "realtime" or "lockstep".
            guard: Last check of every action. None: width, dtype and finiteness only.
            on_state: Called after every tick with the counters; must be quick. If it raises, that
                is logged and it is not called again.

        Raises:
            InvalidArgumentError: The robot lacks something, the guard does not fit it, or the pace
                is unknown.
        """
        check_robot(robot)
        self._robot = robot
        self._clock = clock
        self._pace: Pace = pace
        self._on_state = on_state
        self._changed = threading.Condition()
        self._estop = EstopLatch()
        self._core = ControlCore(guard_for(robot, guard), self._estop, self._wake)
        self._driver = TickDriver(robot, self._core, clock, pace)
        self._overruns = OverrunWatch(robot.control_hz)
        self._log_thread: threading.Thread | None = None
        self._has_called = False
        self._jobs: deque[_Job] = deque()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._last_report: SourceReport | None = None

    def __enter__(self) -> ControlLoop:
        with self._changed:
            if self._thread is not None:
                raise InvalidArgumentError("a ControlLoop runs once; make a new one", field="loop")
            # The grid begins when the thread does, not when the object was made.
            self._driver = TickDriver(self._robot, self._core, self._clock, self._pace)
            self._thread = threading.Thread(target=self._main, name="robot-control", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_stopping = True
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)
            if self._thread.is_alive():
                _LOG.error(
                    "the robot has not returned from a call for %.0f s; its thread is left behind",
                    STOP_TIMEOUT_S,
                )
            elif self._log_thread is not None:
                self._log_thread.join(_LOG_TIMEOUT_S)

    @property
    def last_report(self) -> SourceReport | None:
        """Report of the source that ended last, also if `run` raised."""
        return self._last_report

    def run(self, source: ActionSource, timeout_s: float | None = None) -> SourceReport:
        """Run a source until it is done. Blocks; call it from the tool's thread.

        Args:
            source: Starts with the next tick. Stopped in any case; if it is refused, at once and
                on this thread.
            timeout_s: Seconds from its first tick after which it is ended. None: no limit.

        Raises:
            EstopError: The emergency stop is or was set.
            DeadlineExceededError: `timeout_s` has passed.
            InvalidArgumentError: Another source is active, or called from the control thread.
            LoopStoppedError: The loop has ended.
            Exception: Whatever the source or the robot raised. The robot holds, the loop lives.
        """
        try:
            self._refuse_control_thread("run")
            with self._changed:
                self._require_running()
                run = self._core.submit(source, timeout_s)
                self._changed.notify_all()
        except RobotSdkError:
            # Refused before anything saw it, so nobody else will release what it holds.
            source.stop()
            raise
        try:
            self._await(run, timeout_s)
        except BaseException:
            # Also for KeyboardInterrupt: nobody waits any more, so nothing may go on moving.
            self._core.cancel(run)
            self._wake()
            raise
        self._last_report = run.report
        if run.error is not None:
            raise run.error
        if run.report is None:
            raise LoopStoppedError("the source ended without a report")
        return run.report

    def call(self, function: Callable[[Robot], _T]) -> _T:
        """Run a function on the control thread, between two ticks, and return its value.

        For what is no motion: to look, to localise. A function that takes longer than a period
        makes the loop skip ticks, which are counted. It is refused while the emergency stop is
        set, because it holds the robot.

        Raises:
            EstopError: The emergency stop is set, or was set before the function's turn came.
            LoopStoppedError: The loop has ended.
            Exception: Whatever the function raises.
        """
        epoch = self._estop.enter()
        if threading.current_thread() is self._thread:
            return function(self._robot)
        job = _Job(function, epoch)
        with self._changed:
            self._require_running()
            self._jobs.append(job)
            self._changed.notify_all()
            while not job.is_done:
                self._changed.wait()
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[return-value]

    def estop(self, reason: str) -> None:
        """Stop: at most one more action, and none ever until `rearm`. Returns at once.

        The running source ends with EstopError; work that was waiting is refused. In real time the
        loop goes on to hold. Not a safety-rated stop.
        """
        self._estop.set(reason)
        self._wake()

    def rearm(self) -> None:
        """Allow new work after an emergency stop. Nothing from before is resumed."""
        self._estop.rearm()

    def state(self) -> LoopState:
        """Counters and lateness up to the last tick."""
        return self._driver.state()

    def _await(self, run: SourceRun, timeout_s: float | None) -> None:
        limit_s = None if timeout_s is None else self._clock.now_s() + timeout_s + TIMEOUT_GRACE_S
        with self._changed:
            while not run.is_finished:
                if limit_s is None:
                    self._changed.wait()
                    continue
                remaining_s = limit_s - self._clock.now_s()
                if remaining_s <= 0:
                    raise DeadlineExceededError(
                        "the robot has not returned from a call; the source is ended when it does",
                        field="timeout_s",
                        value=timeout_s,
                    )
                self._clock.wait(self._changed, remaining_s)

    def _main(self) -> None:
        try:
            while True:
                job = self._next_job()
                if job is not None:
                    self._do(job)
                elif self._is_stopping:
                    return
                else:
                    self._tick()
        finally:
            self._end()

    def _next_job(self) -> _Job | None:
        """Wait for a call (returned) or for the next tick or the end (None)."""
        with self._changed:
            while True:
                if self._is_stopping:
                    return None
                due_s = self._driver.due_s()
                remaining_s = None if due_s is None else due_s - self._clock.now_s()
                is_due = remaining_s is not None and remaining_s <= 0
                # A due tick goes before calls in real time, so that calls cannot starve it.
                if is_due and self._pace == "realtime":
                    return None
                if self._jobs:
                    return self._jobs.popleft()
                if is_due:
                    return None
                if remaining_s is None:
                    self._changed.wait()
                else:
                    self._clock.wait(self._changed, remaining_s)

    def _tick(self) -> None:
        if not self._driver.run():
            return
        self._watch_overruns()
        if self._on_state is None:
            return
        try:
            self._on_state(self.state())
        except Exception:  # noqa: BLE001 - somebody else's callback must not stop the loop
            _LOG.exception("on_state raised and is not called again")
            self._on_state = None

    def _watch_overruns(self) -> None:
        overrun_ticks = self._driver.overrun_ticks
        if self._has_called:
            self._has_called = False
            self._overruns.excuse(overrun_ticks)
            return
        text = self._overruns.note(overrun_ticks, self._clock.now_s())
        if text and (self._log_thread is None or not self._log_thread.is_alive()):
            # Writing may block, and this thread is late as it is.
            self._log_thread = threading.Thread(
                target=_LOG.warning, args=("%s", text), name="robot-control-log", daemon=True
            )
            self._log_thread.start()

    def _do(self, job: _Job) -> None:
        self._has_called = True
        try:
            if job.epoch != self._estop.epoch:
                raise self._estop.error()
            job.result = job.function(self._robot)
        except BaseException as error:  # noqa: BLE001 - handed to the caller of call()
            job.error = error
        with self._changed:
            job.is_done = True
            self._changed.notify_all()

    def _end(self) -> None:
        self._is_stopping = True
        stopped = LoopStoppedError("the control loop has ended")
        self._core.close(stopped, self._clock.now_s())
        if self._pace == "realtime":
            try:
                self._driver.hold()
            except Exception:  # noqa: BLE001 - callers that wait must be told first
                _LOG.exception("the robot raised in hold() at the end of the loop")
        with self._changed:
            for job in self._jobs:
                job.error, job.is_done = stopped, True
            self._jobs.clear()
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _require_running(self) -> None:
        if self._thread is None:
            raise LoopStoppedError(
                "the control loop is not running", hint="use it in `with ControlLoop(...) as loop:`"
            )
        if self._is_stopping or not self._thread.is_alive():
            raise LoopStoppedError("the control loop has ended")

    def _refuse_control_thread(self, method: str) -> None:
        if threading.current_thread() is self._thread:
            raise InvalidArgumentError(
                f"{method}() waits for the control thread and was called on it", field=method
            )
