"""An action policy as an action source: observations out, chunks in, one row a tick."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import Act, Command, Done, Hold, HoldReason, SourceStatus, Tick
from robot_sdk.api.v1 import common_pb2
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.chunks import (
    ChunkArrival,
    ChunkFailure,
    PolicyObservation,
    PolicyStream,
    PolicyTiming,
)
from robot_sdk.errors import (
    BadModelOutputError,
    DeadlineExceededError,
    InvalidArgumentError,
    RetryableError,
    RobotSdkError,
    StaleObservationError,
)
from robot_sdk.frame_watch import FrameWatch
from robot_sdk.request_timing import Request, RequestTiming

_LOG = logging.getLogger(__name__)

#: Unusable chunks in a row, refused by the server or by the guard, after which the source ends with
#: the error: a model that is wrong three times will not be right the fourth time, while one bad
#: chunk may be an accident.
MAX_BAD_CHUNKS = 3
#: How long one step may wait for a chunk in lockstep. Covers loading a model.
LOCKSTEP_TIMEOUT_S = 60.0

ChunkOutcome = Literal["merged", "late", "outdated", "failed", "given_up", "abandoned"]
PolicyEnd = Literal["stop_when", "max_steps"]


@dataclass(frozen=True)
class ChunkRecord:
    """What became of one observation. Times are on the control loop's (robot's) clock.

    Attributes:
        outcome: "merged": at least one row was put into the buffer. "late": every row's step was
            over. "outdated": a chunk of a newer observation came first. "failed": refused by the
            server or by the guard. "given_up": no answer within the deadline. "abandoned": the
            source ended first.
        sent_s: When the stream sent it; without a chunk, when the tick began in which it was sent.
        received_s: None: no chunk came.
        applied_step: First step that the chunk has a say in; None if it has none.
        dropped_rows: Rows of it that were not used; None if there was no valid chunk.
        rows: Rows in it; None if there was no valid chunk.
        timing: The server's breakdown; None if there was no chunk.
        error: Why there was no valid chunk.
    """

    sequence: int
    control_step: int
    outcome: ChunkOutcome
    sent_s: float
    received_s: float | None = None
    applied_step: int | None = None
    dropped_rows: int | None = None
    rows: int | None = None
    timing: PolicyTiming | None = None
    error: RobotSdkError | None = None


@dataclass(frozen=True)
class PolicyResult:
    """Why a policy source was done, and what it took.

    Attributes:
        ended_by: "stop_when": the condition returned a value. "max_steps": the budget was used up.
        value: What the condition returned; None for "max_steps".
        steps: Control steps from the first tick to the end, skipped ones included.
        num_chunks: Valid chunks that arrived.
        num_failures: Observations without a valid chunk, and times that a camera stopped.
        last_error: The last reason for one; None if there was none.
    """

    ended_by: PolicyEnd
    value: object
    steps: int
    num_chunks: int
    num_failures: int
    last_error: RobotSdkError | None


class PolicySource:
    """Executes what a policy says, at the step it says it for.

    Every tick: take in what has arrived, send an observation if one is due, act on the row of this
    step or hold. Failures that may pass (timeouts, a server that is away, a stopped camera, one
    bad chunk) are held through and asked again; others end the source with their error.

    In lockstep an observation's answer is waited for before the robot moves on, so that what is
    executed does not depend on how fast the policy is.
    """

    kind: Literal["policy"] = "policy"

    def __init__(
        self,
        stream: PolicyStream,
        buffer: ChunkBuffer,
        timing: RequestTiming,
        *,
        max_steps: int,
        observation_keys: Collection[str] | None = None,
        stop_when: Callable[[Tick], object | None] | None = None,
        guard: ActionGuard | None = None,
        frame_watch: FrameWatch | None = None,
        on_chunk: Callable[[ChunkRecord], None] | None = None,
        new_trace: Callable[[int], common_pb2.TraceContext | None] | None = None,
        lockstep_timeout_s: float = LOCKSTEP_TIMEOUT_S,
        name: str = "",
        first_observation_s: float | None = None,
    ) -> None:
        """A source for one instruction.

        Args:
            stream: Fresh, for this instruction only. Closed by `stop`.
            buffer: Cleared at the start and at the end.
            timing: Restarted at the start; the latencies it knows are kept.
            max_steps: Control steps after which it is done.
            observation_keys: What is read and sent. None: the required keys of the policy's spec.
            stop_when: Asked at the beginning of every tick; a value other than None ends the
                source with it.
            guard: Check of chunks. None: the limits of the policy's spec, out of limits refused.
            frame_watch: Watch of the cameras; share one per episode. None: a new one.
            on_chunk: Gets one record per observation that was to be sent, on the control thread. If
                it raises, that is logged and it is not called again; the same for `new_trace`.
            new_trace: Trace context for an observation, by sequence.
            lockstep_timeout_s: Longest wait for a usable chunk within one step in lockstep.
            name: For heartbeats and reports. Empty: the policy's name.
            first_observation_s: When the server would like the first observation, on the control
                loop's clock. The loop puts its grid on it before the first tick. None: any time.

        Raises:
            InvalidArgumentError: max_steps or lockstep_timeout_s is out of range.
        """
        if max_steps < 1:
            raise InvalidArgumentError("must be at least 1", field="max_steps", value=max_steps)
        if not lockstep_timeout_s > 0:
            raise InvalidArgumentError(
                "must be above 0", field="lockstep_timeout_s", value=lockstep_timeout_s
            )
        spec = stream.spec
        self.name = name or spec.name
        self._stream = stream
        self._buffer = buffer
        self._timing = timing
        self._max_steps = max_steps
        self._keys: tuple[str, ...] = (
            tuple(key.name for key in spec.observation_keys if key.required)
            if observation_keys is None
            else tuple(observation_keys)
        )
        self._stop_when = stop_when
        self._guard = ActionGuard.from_spec(spec) if guard is None else guard
        self._frame_watch = FrameWatch() if frame_watch is None else frame_watch
        self._on_chunk = on_chunk
        self._new_trace = new_trace
        self._lockstep_timeout_s = lockstep_timeout_s
        self._first_observation_s = first_observation_s
        self._sequence = 0
        self._first_step = 0
        self._step = 0
        self._num_chunks = 0
        self._num_failures = 0
        self._num_bad_in_a_row = 0
        self._last_error: RobotSdkError | None = None
        self._is_stale = False
        self._waiting_since_s: float | None = None

    @property
    def grid_phase_s(self) -> float | None:
        """Where the server would like this robot's grid of ticks."""
        return self._first_observation_s

    def start(self, tick: Tick) -> None:
        """Nothing of an earlier source survives in the buffer."""
        self._buffer.clear()
        self._timing.start(tick.pace, tick.now_s, self._first_observation_s)
        self._first_step = tick.step

    def next(self, tick: Tick) -> Command:
        """The command of this tick.

        Raises:
            EpisodeError: The episode is lost.
            BadModelOutputError: `MAX_BAD_CHUNKS` unusable chunks in a row.
            DeadlineExceededError: Lockstep only: no usable chunk within `lockstep_timeout_s`.
            StaleObservationError: Lockstep only: a camera has stopped. In real time it is held
                through until the camera is back.
            PersistentError: The policy refused the observation.
        """
        self._step = tick.step
        done = self._done(tick)
        if done is not None:
            return done
        self._receive(tick)
        self._give_up(tick)
        if self._timing.is_due(tick.step, tick.now_s) and self._request(tick):
            # A policy in this process may have answered already.
            self._receive(tick)
        if tick.pace == "lockstep" and self._timing.is_waiting:
            return self._wait_in_lockstep(tick)
        self._waiting_since_s = None
        row = self._buffer.pop(tick.step)
        return self._hold() if row is None else Act(row)

    def wait(self, timeout_s: float) -> None:
        """Lockstep: block until something arrives."""
        self._stream.wait(timeout_s)

    def stop(self) -> None:
        """Close the stream and forget all rows."""
        request = self._timing.abandon()
        if request is not None:
            self._record(request, "abandoned")
        self._buffer.clear()
        self._stream.close()

    def status(self) -> SourceStatus:
        """Rows from the next step on, and the rest of the step budget."""
        next_step = self._step + 1
        return SourceStatus(
            buffered_steps=self._buffer.remaining(next_step),
            steps_left=max(0, self._first_step + self._max_steps - next_step),
        )

    def _done(self, tick: Tick) -> Done | None:
        value = None if self._stop_when is None else self._stop_when(tick)
        if value is not None:
            return Done(self._result("stop_when", value, tick.step))
        if tick.step - self._first_step >= self._max_steps:
            return Done(self._result("max_steps", None, tick.step))
        return None

    def _result(self, ended_by: PolicyEnd, value: object, step: int) -> PolicyResult:
        return PolicyResult(
            ended_by=ended_by,
            value=value,
            steps=step - self._first_step,
            num_chunks=self._num_chunks,
            num_failures=self._num_failures,
            last_error=self._last_error,
        )

    def _hold(self) -> Hold:
        return Hold(HoldReason.STARVED if self._num_chunks else HoldReason.START_WAIT)

    def _wait_in_lockstep(self, tick: Tick) -> Hold:
        if self._waiting_since_s is None:
            self._waiting_since_s = tick.now_s
        elif tick.now_s - self._waiting_since_s >= self._lockstep_timeout_s:
            raise DeadlineExceededError(
                f"policy {self.name!r} gave no usable chunk for step {tick.step} within "
                "lockstep_timeout_s",
                field="lockstep_timeout_s",
                value=self._lockstep_timeout_s,
                hint=f"last error: {self._last_error or 'none, no answer at all'}",
            ) from self._last_error
        return self._hold()

    def _receive(self, tick: Tick) -> None:
        for answer in self._stream.poll():
            if isinstance(answer, ChunkArrival):
                self._take_chunk(tick, answer)
            else:
                self._take_failure(tick, answer)

    def _take_chunk(self, tick: Tick, arrival: ChunkArrival) -> None:
        request = self._timing.in_flight
        if request is None or request.sequence != arrival.sequence:
            return  # Given up before; its record has been written.
        try:
            if arrival.control_step != request.control_step:
                raise BadModelOutputError(
                    f"the chunk of sequence {arrival.sequence} must answer step "
                    f"{request.control_step}",
                    field="control_step",
                    value=arrival.control_step,
                )
            actions = self._guard.check_chunk(arrival.actions)
        except BadModelOutputError as error:
            self._timing.failed(arrival.sequence, tick.now_s)
            self._note_error(error)
            self._record(request, "failed", arrival=arrival, error=error)
            self._count_bad(error)
            return
        self._timing.answered(arrival.sequence, arrival.received_s, arrival.next_observation_in_s)
        self._num_bad_in_a_row = 0
        self._num_chunks += 1
        merged = self._buffer.merge(arrival.control_step, actions, tick.step)
        outcome: ChunkOutcome = "merged"
        if merged.applied_step is None:
            outcome = "outdated" if merged.outdated else "late"
        self._record(
            request,
            outcome,
            arrival=arrival,
            applied_step=merged.applied_step,
            dropped_rows=merged.dropped_rows,
            rows=len(actions),
        )

    def _take_failure(self, tick: Tick, failure: ChunkFailure) -> None:
        error = failure.error
        outcome: ChunkOutcome = "failed"
        if isinstance(error, DeadlineExceededError):
            outcome = "given_up"
            request = self._timing.give_up(failure.sequence, tick.now_s)
        else:
            request = self._timing.failed(failure.sequence, tick.now_s, error.retry_after_s)
        if request is None:
            return
        self._note_error(error)
        self._record(request, outcome, error=error)
        if isinstance(error, BadModelOutputError):
            self._count_bad(error)
        if not isinstance(error, RetryableError):
            raise error

    def _count_bad(self, error: BadModelOutputError) -> None:
        self._num_bad_in_a_row += 1
        if self._num_bad_in_a_row >= MAX_BAD_CHUNKS:
            raise error

    def _give_up(self, tick: Tick) -> None:
        deadline_s = self._timing.deadline_s
        request = self._timing.give_up_overdue(tick.now_s)
        if request is None:
            return
        error = DeadlineExceededError(
            f"policy {self.name!r} did not answer sequence {request.sequence} within deadline_s",
            field="deadline_s",
            value=deadline_s,
        )
        self._note_error(error)
        self._record(request, "given_up", error=error)

    def _request(self, tick: Tick) -> bool:
        """Send an observation of this tick. False: there is none that may be used."""
        observation = tick.observe(self._keys)
        try:
            self._frame_watch.check(tick.step, observation)
        except StaleObservationError as error:
            # While the world stands still no new frame will come, so waiting is pointless.
            if tick.pace == "lockstep":
                raise
            if not self._is_stale:
                self._note_error(error)
            self._is_stale = True
            return False
        self._is_stale = False
        sequence = self._sequence
        message = PolicyObservation(
            sequence=sequence,
            control_step=tick.step,
            observation=observation,
            buffered_steps=self._buffer.remaining(tick.step),
            deadline_s=self._timing.deadline_s,
            trace=self._trace_of(sequence),
            committed_actions=self._committed_actions(tick.step),
        )
        self._sequence += 1
        try:
            self._stream.send(message)
        except RobotSdkError as error:
            self._note_error(error)
            self._record(Request(sequence, tick.step, tick.now_s), "failed", error=error)
            raise
        self._timing.sent(sequence, tick.step, tick.now_s)
        return True

    def _committed_actions(self, step: int) -> NDArray[np.float32] | None:
        if not self._stream.spec.supports_committed_actions:
            return None
        return self._buffer.leading_rows(step, self._timing.committed_steps)

    def _note_error(self, error: RobotSdkError) -> None:
        self._num_failures += 1
        self._last_error = error

    def _trace_of(self, sequence: int) -> common_pb2.TraceContext | None:
        if self._new_trace is None:
            return None
        try:
            return self._new_trace(sequence)
        except Exception:  # noqa: BLE001 - telemetry must not stop the robot
            _LOG.exception("new_trace raised and is not called again")
            self._new_trace = None
            return None

    def _record(
        self,
        request: Request,
        outcome: ChunkOutcome,
        *,
        arrival: ChunkArrival | None = None,
        applied_step: int | None = None,
        dropped_rows: int | None = None,
        rows: int | None = None,
        error: RobotSdkError | None = None,
    ) -> None:
        if self._on_chunk is None:
            return
        record = ChunkRecord(
            sequence=request.sequence,
            control_step=request.control_step,
            outcome=outcome,
            sent_s=request.sent_s if arrival is None else arrival.sent_s,
            received_s=None if arrival is None else arrival.received_s,
            applied_step=applied_step,
            dropped_rows=dropped_rows,
            rows=rows,
            timing=None if arrival is None else arrival.timing,
            error=error,
        )
        try:
            self._on_chunk(record)
        except Exception:  # noqa: BLE001 - telemetry must not stop the robot
            _LOG.exception("on_chunk raised and is not called again")
            self._on_chunk = None
