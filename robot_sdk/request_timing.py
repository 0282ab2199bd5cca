"""When to send the next observation to a policy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from robot_sdk.action_source import Pace
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.latency_window import LatencyWindow
from robot_sdk.spec import PolicySpec

#: Steps asked for beyond the expected latency: one control period of jitter.
DEFAULT_MARGIN_STEPS = 1
#: First answers of a stream whose latency is not counted: they include loading and compiling.
WARMUP_SAMPLES = 1
#: Pause before asking again after the second failure in a row. The first one is asked again at
#: once. Doubles up to the cap, which keeps a robot within 5 s of a server that comes back.
FIRST_RETRY_PAUSE_S = 0.1
MAX_RETRY_PAUSE_S = 1.0

#: Times closer than this are equal: a latency of exactly n periods must not become n + 1 steps.
_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class Request:
    """An observation that is on its way. `sent_s` is on the control loop's clock."""

    sequence: int
    control_step: int
    sent_s: float


class RequestTiming:
    """Decides when an observation is due; at most one is in flight.

    In real time the next one is due at step

        s_prev + min(executed_steps, max(1, horizon - lead_steps))

    with lead_steps = ceil(latency * control_hz) + margin_steps: early enough that the answer comes
    before the rows run out, and not before `executed_steps` rows if there is time for those. The
    latency is a recent quantile; while it is unknown, the next observation goes out at the first
    tick after the previous answer. In lockstep the world waits, so it is exactly
    s_prev + executed_steps.

    A server that paces its robots says when it would like the next observation, so that the
    observations of several robots come together. It is sent at the first tick after that, and at
    s_prev + executed_steps at the latest: the server knows what the next batch takes, and the rows
    beyond `executed_steps` make asking earlier possible without a gap. The first observation of a
    stream may also wait for the server's wish, for no longer than the rows of one chunk are
    executed, since no row is lost by it; there the nearest tick counts, because the loop has put
    its grid on it.

    For one thread. Times are `now_s` of the control loop's clock.
    """

    def __init__(
        self,
        *,
        horizon: int,
        executed_steps: int,
        control_hz: float,
        deadline_s: float | None = None,
        margin_steps: int = DEFAULT_MARGIN_STEPS,
        latencies: LatencyWindow | None = None,
    ) -> None:
        """Timing for chunks of one shape, executed at one rate.

        Args:
            horizon: Rows in a chunk.
            executed_steps: Rows to execute before the next chunk should take over, 1..horizon.
            control_hz: Rate at which rows are executed, per second.
            deadline_s: Seconds after which an answer is given up and a fresh observation is sent.
                None: horizon / control_hz in real time, since by then every row's step is over;
                no limit in lockstep, where the action source bounds the wait.
            margin_steps: Steps asked for beyond the expected latency.
            latencies: Recent latencies; None: the last 32, quantile 0.95. Share one between
                streams to the same policy so that a new stream starts with what is known.

        Raises:
            InvalidArgumentError: A number is out of range.
        """
        if not 1 <= executed_steps <= horizon:
            raise InvalidArgumentError(
                "must lie between 1 and the horizon",
                field="executed_steps",
                value=executed_steps,
                allowed=(f"1 to {horizon}",),
            )
        if not (math.isfinite(control_hz) and control_hz > 0):
            raise InvalidArgumentError("must be above 0", field="control_hz", value=control_hz)
        if deadline_s is not None and not deadline_s > 0:
            raise InvalidArgumentError("must be above 0", field="deadline_s", value=deadline_s)
        self._horizon = horizon
        self._executed_steps = executed_steps
        self._control_hz = control_hz
        self._set_deadline_s = deadline_s
        self._margin_steps = margin_steps
        self._latencies = LatencyWindow() if latencies is None else latencies
        self.start("realtime")

    @property
    def period_s(self) -> float:
        """Seconds between two rows."""
        return 1.0 / self._control_hz

    @classmethod
    def from_spec(
        cls,
        spec: PolicySpec,
        *,
        control_hz: float | None = None,
        deadline_s: float | None = None,
        margin_steps: int = DEFAULT_MARGIN_STEPS,
        latencies: LatencyWindow | None = None,
    ) -> RequestTiming:
        """Timing for a policy. `control_hz` None: the rate that the spec names."""
        return cls(
            horizon=spec.horizon,
            executed_steps=spec.executed_steps,
            control_hz=spec.control_hz if control_hz is None else control_hz,
            deadline_s=deadline_s,
            margin_steps=margin_steps,
            latencies=latencies,
        )

    def start(
        self, pace: Pace, now_s: float = 0.0, first_observation_s: float | None = None
    ) -> None:
        """A new stream begins: nothing in flight, nothing due later. Known latencies stay.

        Args:
            pace: How the world runs.
            now_s: When the first tick began.
            first_observation_s: When the server would like the first observation, on the control
                loop's clock. None: at once. Not waited for in lockstep, nor if it is further off
                than `executed_steps` rows last.
        """
        self._pace: Pace = pace
        self._first_due_s: float | None = None
        if first_observation_s is not None and pace == "realtime":
            wait_s = first_observation_s - now_s
            if 0.0 < wait_s <= self._executed_steps * self.period_s + _ROUNDING_S:
                self._first_due_s = first_observation_s
        self._in_flight: Request | None = None
        self._previous_step: int | None = None
        self._hint_s: float | None = None
        self._retry_at_s: float | None = None
        self._num_failures = 0
        self._num_answers = 0

    @property
    def deadline_s(self) -> float | None:
        """Seconds after which an answer is given up. None: never."""
        if self._set_deadline_s is not None:
            return self._set_deadline_s
        return self._horizon / self._control_hz if self._pace == "realtime" else None

    @property
    def in_flight(self) -> Request | None:
        """The observation that waits for its answer."""
        return self._in_flight

    @property
    def is_waiting(self) -> bool:
        """An answer is on its way, or the last request failed and has to be repeated."""
        return self._in_flight is not None or self._retry_at_s is not None

    @property
    def lead_steps(self) -> int | None:
        """Steps that a request must lead the end of the rows by. None: latency unknown."""
        latency_s = self._latencies.value_s()
        if latency_s is None:
            return None
        return self._steps_in(latency_s) + self._margin_steps

    @property
    def committed_steps(self) -> int:
        """Steps, from that of an observation on, whose rows are executed whatever its answer says.

        In real time those of the expected latency; at least one, since the observation's own tick
        acts before any answer can come. 0 in lockstep, where the world waits for the answer.
        """
        if self._pace == "lockstep":
            return 0
        latency_s = self._latencies.value_s()
        return 1 if latency_s is None else max(1, self._steps_in(latency_s))

    @property
    def next_step(self) -> int | None:
        """Step at which the next observation is due by its step. None: at once."""
        if self._previous_step is None:
            return None
        if self._pace == "lockstep":
            return self._previous_step + self._executed_steps
        if self._hint_s is not None:
            # A server that paces knows what the next batch takes and leaves enough rows. Latencies
            # seen here include waiting for a batch, and asking ever earlier would add to that.
            return self._previous_step + self._executed_steps
        lead_steps = self.lead_steps
        free_steps = 1 if lead_steps is None else max(1, self._horizon - lead_steps)
        return self._previous_step + min(self._executed_steps, free_steps)

    def is_due(self, step: int, now_s: float) -> bool:
        """Whether an observation of `step` should be sent now."""
        if self._in_flight is not None:
            return False
        if self._retry_at_s is not None:
            return now_s >= self._retry_at_s - _ROUNDING_S
        next_step = self.next_step
        if next_step is None:
            return self._first_due_s is None or self._is_nearest_tick(now_s, self._first_due_s)
        if step >= next_step:
            return True
        if self._pace == "lockstep" or self._hint_s is None or self._previous_step is None:
            return False
        return step > self._previous_step and now_s >= self._hint_s - _ROUNDING_S

    def sent(self, sequence: int, step: int, now_s: float) -> None:
        """An observation of `step` was sent."""
        if self._in_flight is not None:
            raise InvalidArgumentError(
                f"sequence {self._in_flight.sequence} is still in flight; one at a time",
                field="sequence",
                value=sequence,
            )
        self._in_flight = Request(sequence, step, now_s)
        self._previous_step = step
        self._retry_at_s = None
        self._hint_s = None

    def answered(
        self, sequence: int, received_s: float, next_observation_in_s: float | None = None
    ) -> Request | None:
        """The answer to `sequence` came at `received_s`. None: nobody waits for it any more.

        Args:
            sequence: Of the observation that the chunk answers.
            received_s: When the chunk came, on the control loop's clock.
            next_observation_in_s: The server's wish, from `received_s`. It can only move the next
                observation earlier; a value that is not a number is ignored.
        """
        request = self._take(sequence)
        if request is None:
            return None
        self._num_failures = 0
        self._num_answers += 1
        if self._num_answers > WARMUP_SAMPLES:
            self._latencies.add(max(0.0, received_s - request.sent_s))
        if next_observation_in_s is not None and math.isfinite(next_observation_in_s):
            self._hint_s = received_s + next_observation_in_s
        return request

    def failed(
        self, sequence: int, now_s: float, retry_after_s: float | None = None
    ) -> Request | None:
        """`sequence` will get no usable answer. A fresh observation is due after a pause.

        Returns None, and changes nothing, if nobody waits for it any more.
        """
        request = self._take(sequence)
        if request is None:
            return None
        pause_s = 0.0
        if self._num_failures:
            # The exponent is bounded, so that a long outage does not overflow the float.
            doublings = min(self._num_failures - 1, 16)
            pause_s = min(MAX_RETRY_PAUSE_S, FIRST_RETRY_PAUSE_S * 2.0**doublings)
        if retry_after_s is not None and math.isfinite(retry_after_s):
            pause_s = max(pause_s, retry_after_s)
        self._num_failures += 1
        self._retry_at_s = now_s + pause_s
        return request

    def give_up_overdue(self, now_s: float) -> Request | None:
        """Give up the observation in flight if its deadline has passed, and return it.

        A fresh one is due at once. An answer that comes later finds nobody waiting.
        """
        request, deadline_s = self._in_flight, self.deadline_s
        if request is None or deadline_s is None:
            return None
        if now_s - request.sent_s < deadline_s - _ROUNDING_S:
            return None
        return self.give_up(request.sequence, now_s)

    def give_up(self, sequence: int, now_s: float) -> Request | None:
        """`sequence` was not answered in time. A fresh observation is due at once.

        No pause, however often it happens: the time allowed has been one. Returns None, and
        changes nothing, if nobody waits for it any more.
        """
        request = self._take(sequence)
        if request is not None:
            self._retry_at_s = now_s
        return request

    def abandon(self) -> Request | None:
        """The stream ends. Returns what was in flight."""
        request, self._in_flight = self._in_flight, None
        return request

    def _is_nearest_tick(self, now_s: float, wish_s: float) -> bool:
        """The tick that began at `now_s` is the one nearest to the wish, or a later one."""
        return now_s >= wish_s - self.period_s / 2 - _ROUNDING_S

    def _steps_in(self, duration_s: float) -> int:
        """Steps that begin while a duration passes, the first one included."""
        return max(0, math.ceil((duration_s - _ROUNDING_S) * self._control_hz))

    def _take(self, sequence: int) -> Request | None:
        request = self._in_flight
        if request is None or request.sequence != sequence:
            return None
        self._in_flight = None
        return request
