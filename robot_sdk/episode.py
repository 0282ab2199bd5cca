"""One episode: from asking for admission to the end, whatever happens in between."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.brain_client import BrainClient
from robot_sdk.clock import Clock
from robot_sdk.episode_calls import EpisodeCalls
from robot_sdk.errors import EpisodeEndedError, RobotSdkError, UnsupportedError, nearest
from robot_sdk.lease_client import END_TIMEOUT_S, LeaseClient
from robot_sdk.messages import Message, Sampling, ToolSpec, TurnResult
from robot_sdk.plain_text import one_line
from robot_sdk.policy_client import RemotePolicyStream
from robot_sdk.robot_state import RobotState
from robot_sdk.server_info import ServerInfo
from robot_sdk.spec import PolicySpec
from robot_sdk.timesync import ClockExchange, ClockOffset
from robot_sdk.transport import Transport
from robot_sdk.wire import optional

Outcome = Literal["success", "failure", "aborted"]

_OUTCOMES: dict[Outcome, episode_pb2.EpisodeOutcome] = {
    "success": episode_pb2.EPISODE_OUTCOME_SUCCESS,
    "failure": episode_pb2.EPISODE_OUTCOME_FAILURE,
    "aborted": episode_pb2.EPISODE_OUTCOME_ABORTED,
}
_MAX_REASON_CHARS = 500
_MAX_LOGGED_CHARS = 300
#: Relative difference of two control rates that nobody means to be two.
_RATE_TOLERANCE = 0.01

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueueUpdate:
    """The episode waits at the door.

    Attributes:
        position: 1 is next.
        expected_wait_s: From now, seconds. None: nothing is known yet.
        reason: Why it waits, for a person.
    """

    position: int
    num_waiting: int
    expected_wait_s: float | None
    reason: str


@dataclass(frozen=True)
class DrainNotice:
    """The server will stop; the episode may finish within `deadline_s` of the notice."""

    deadline_s: float
    reason: str


@dataclass(frozen=True)
class PacingAdvice:
    """When the action tier would like this robot to ask.

    Attributes:
        grid_shift_s: Where the control grid should go through, from the moment of receipt. Followed
            before the next policy's first tick.
        sustainable_control_hz: Rate that the tier can carry. None: the robot's own is fine.
        received_s: When it came, on the monotonic clock of this process.
    """

    grid_shift_s: float
    sustainable_control_hz: float | None
    received_s: float

    @property
    def grid_phase_s(self) -> float | None:
        """A moment that the grid of ticks should go through. None: it may stay, the shift is 0."""
        return self.received_s + self.grid_shift_s if self.grid_shift_s else None


@dataclass(frozen=True)
class EpisodeLimits:
    """Bounds set by the server. None: no bound."""

    max_turns: int | None = None
    max_duration_s: float | None = None
    max_context_tokens: int | None = None


class Episode:
    """A context manager made by `Client.episode`. Entering waits for admission.

    Leaving it ends the episode on the server: with the outcome given to `end`, as "aborted" if an
    exception leaves the block, else as "failure" because nobody claimed success.

    Thread-safe, except that one turn runs at a time.
    """

    def __init__(
        self,
        transport: Transport,
        request: episode_pb2.OpenEpisode,
        server_info: ServerInfo,
        clock: Clock,
        *,
        on_queued: Callable[[QueueUpdate], None] | None,
        admission_timeout_s: float | None,
        connect_timeout_s: float,
        allow_privileged: bool,
        on_exchange: Callable[[ClockExchange], None],
        on_admitted: Callable[[episode_pb2.Admitted], ServerInfo],
        on_over: Callable[[Episode], None],
        clock_offset: Callable[[], ClockOffset | None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._request = request
        self._server_info = server_info
        self._clock = clock
        self._on_queued = on_queued
        self._admission_timeout_s = admission_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._allow_privileged = allow_privileged
        self._on_exchange = on_exchange
        self._on_admitted = on_admitted
        self._on_over = on_over
        self._clock_offset = clock_offset
        self._pid = os.getpid()
        self._calls = EpisodeCalls()
        self._lease: LeaseClient | None = None
        self._brain: BrainClient | None = None
        self._admitted: episode_pb2.Admitted | None = None
        self._admitted_after_s = 0.0
        self._queue_updates: list[QueueUpdate] = []
        self._is_ended = False
        self._lost: RobotSdkError | None = None
        self._rate_warned: set[str] = set()

    # Life.

    def __enter__(self) -> Episode:
        """Wait for admission.

        Raises:
            DeadlineExceededError: Not admitted within admission_timeout_s.
            EpisodeEndedError: Another thread has called `end` meanwhile.
            OverloadedError, DrainingError: The server takes no episodes at present.
            ServerUnavailableError: It cannot be reached.
        """
        started_s = self._clock.now_s()
        lease = LeaseClient(
            self._transport,
            self._request,
            self._calls,
            connect_timeout_s=self._connect_timeout_s,
            on_exchange=self._on_exchange,
        )
        self._lease = lease
        lease.start()
        try:
            self._admitted = lease.wait_admitted(self._admission_timeout_s, self._note_queued)
            self._admitted_after_s = self._clock.now_s() - started_s
            self._server_info = self._on_admitted(self._admitted)
        except BaseException as error:
            # Also for KeyboardInterrupt: a place in the queue or a lease must not be left behind.
            self.end("aborted", _reason_of(error))
            raise
        self._brain = BrainClient(self._transport, lease, self._calls, self._clock)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.end("failure", "the program left the episode without naming an outcome")
        else:
            self.end("aborted", _reason_of(error))

    def end(self, outcome: Outcome, reason: str = "", *, timeout_s: float = END_TIMEOUT_S) -> None:
        """End the episode; the first call counts. Running calls are broken off.

        Waits at most `timeout_s` for the server's word and raises nothing: an episode whose server
        is away ends with its lease.
        """
        if self._is_ended or self._lease is None or os.getpid() != self._pid:
            return
        self._lost = self._calls.over
        self._is_ended = True
        self._calls.stop(EpisodeEndedError("the episode was ended by its robot"))
        try:
            self._lease.end(_OUTCOMES[outcome], reason[:_MAX_REASON_CHARS], timeout_s)
        finally:
            self._on_over(self)

    # What it is.

    @property
    def id(self) -> str:
        """Given by the server, never reused. Empty before admission."""
        return "" if self._admitted is None else self._admitted.episode_id

    @property
    def admitted_after_s(self) -> float:
        """Seconds from asking to admission, by the client's clock."""
        return self._admitted_after_s

    @property
    def queued_s(self) -> float:
        """Seconds spent in the queue, by the server's clock."""
        return 0.0 if self._admitted is None else self._admitted.queued_s

    @property
    def queue_updates(self) -> tuple[QueueUpdate, ...]:
        """Every word about the queue so far."""
        return tuple(self._queue_updates)

    @property
    def limits(self) -> EpisodeLimits:
        """Bounds set by the server."""
        if self._admitted is None:
            return EpisodeLimits()
        wire = self._admitted.limits
        return EpisodeLimits(
            max_turns=optional(wire, "max_turns"),
            max_duration_s=optional(wire, "max_duration_s"),
            max_context_tokens=optional(wire, "max_context_tokens"),
        )

    @property
    def lost(self) -> RobotSdkError | None:
        """Why the episode was lost, None while it was not. Every later call raises it."""
        return self._lost if self._is_ended else self._calls.over

    @property
    def draining(self) -> DrainNotice | None:
        """The server's notice that it will stop, None so far."""
        wire = None if self._lease is None else self._lease.draining
        return None if wire is None else DrainNotice(wire.deadline_s, wire.reason)

    @property
    def pacing(self) -> PacingAdvice | None:
        """The server's last advice, None so far."""
        lease = self._lease
        if lease is None or lease.pacing is None or lease.pacing_received_s is None:
            return None
        wire = lease.pacing
        return PacingAdvice(
            wire.grid_shift_s, optional(wire, "sustainable_control_hz"), lease.pacing_received_s
        )

    @property
    def next_turn_index(self) -> int:
        """Index of the turn that `decide` runs next."""
        return 0 if self._brain is None else self._brain.next_turn_index

    # What it does.

    def decide(
        self,
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        slack_s: float | None = None,
        deadline_s: float | None = None,
        on_text: Callable[[str], None] | None = None,
        sampling: Sampling | None = None,
        trace: common_pb2.TraceContext | None = None,
    ) -> TurnResult:
        """Run the next turn of the conversation and wait for its commit.

        A broken connection is repaired inside, without running a turn twice. After a
        DeadlineExceededError the turn may or may not have been committed; calling again with the
        same messages gives its answer either way.

        Args:
            new_messages: What happened since the last turn; turn 0 brings system and user.
            tools: Turn 0 only.
            slack_s: Seconds until the robot runs out of things to do, if known.
            deadline_s: Bound of the whole call, seconds. None: as long as the lease lives.
            on_text: Called with each piece of text as it comes, for display. After a broken
                connection the text starts again from its beginning.
            sampling: How the model picks its words.
            trace: Trace context of this turn's span.

        Raises:
            InvalidArgumentError: A message cannot travel. Nothing was sent.
            DeadlineExceededError: No answer within `deadline_s`.
            EpisodeError: The episode is over.
            RobotSdkError: The brain refused or failed.
        """
        brain = self._brain
        if brain is None:
            raise _not_entered()
        self._calls.check()
        if not self._request.uses_brain:
            raise UnsupportedError(
                "the episode was opened without a brain", hint="open it with uses_brain=True"
            )
        return brain.decide(
            new_messages,
            tools,
            sampling=sampling,
            slack_s=slack_s,
            deadline_s=deadline_s,
            on_text=on_text,
            trace=trace,
        )

    def open_policy(
        self,
        policy: str,
        instruction: str,
        observation_keys: Sequence[str],
        control_hz: float | None = None,
        *,
        noise_seed: int | None = None,
        allow_privileged: bool | None = None,
        trace: common_pb2.TraceContext | None = None,
        timeout_s: float = 10.0,
    ) -> RemotePolicyStream:
        """Open a chunk stream for one instruction. Close it, or use it in a `with`.

        Args:
            policy: Name of a PolicySpec that the episode was opened with.
            instruction: The task in words. A new instruction needs a new stream.
            observation_keys: Tensors and images that every observation will carry. Nothing else
                of an observation is sent.
            control_hz: Rate at which the robot executes rows; None for the episode's. If it is not
                the rate of the policy's spec, that is logged once.
            noise_seed: Base of the noise. None: the policy's default.
            allow_privileged: Ground truth may be sent; None for what the episode was opened with.
            trace: Trace context of the stream.
            timeout_s: Bound of opening it, seconds.

        Raises:
            ObservationMismatchError: The keys do not fit the policy.
            UnsupportedError: No such policy, or the episode was not opened with it.
            EpisodeError: The episode is over.
        """
        if self._lease is None or self._admitted is None:
            raise _not_entered()
        self._calls.check()
        if policy not in self._request.policies:
            raise UnsupportedError(
                "the episode was not opened with this policy",
                field="policy",
                value=policy,
                allowed=self._request.policies,
                hint="name it in client.episode(policies=...)",
            )
        spec = find_policy(self._server_info, policy)
        rate_hz = self._request.control_hz if control_hz is None else control_hz
        self._warn_of_rate(spec, rate_hz)
        stream = RemotePolicyStream(
            self._transport,
            self._lease,
            self._calls,
            self._clock,
            spec,
            instruction,
            observation_keys,
            rate_hz,
            noise_seed=noise_seed,
            trace=trace,
            allow_privileged=(
                self._allow_privileged if allow_privileged is None else allow_privileged
            ),
            clock_offset=self._clock_offset,
        )
        stream.start(timeout_s)
        return stream

    def update_state(self, state: RobotState) -> None:
        """The next heartbeat carries this state. Never blocks; any thread.

        Raises:
            InvalidArgumentError: A value is of another type, or below 0 where it counts something.
        """
        if self._lease is not None:
            self._lease.update_state(state)

    def _warn_of_rate(self, spec: PolicySpec, control_hz: float) -> None:
        """Once an episode and policy; refusing would break simulators that are slow on purpose."""
        if spec.name in self._rate_warned or not (spec.control_hz > 0 and control_hz > 0):
            return
        if abs(control_hz - spec.control_hz) <= _RATE_TOLERANCE * spec.control_hz:
            return
        self._rate_warned.add(spec.name)
        _log.warning(
            "policy %s makes its rows for %g Hz and they will be executed at %g Hz: motions take "
            "%.3g times as long as it means them to",
            spec.name,
            spec.control_hz,
            control_hz,
            spec.control_hz / control_hz,
        )

    def _note_queued(self, wire: episode_pb2.Queued) -> None:
        update = QueueUpdate(
            wire.position, wire.num_waiting, optional(wire, "expected_wait_s"), wire.reason
        )
        if update.reason and not any(told.reason for told in self._queue_updates):
            # Once: the program prints nothing while it waits.
            _log.warning(
                "waiting at the door, place %d of %d: %s",
                update.position,
                update.num_waiting,
                one_line(update.reason, _MAX_LOGGED_CHARS),
            )
        self._queue_updates.append(update)
        if self._on_queued is not None:
            self._on_queued(update)


def find_policy(info: ServerInfo, name: str) -> PolicySpec:
    """The spec of a policy that the server offers.

    Raises:
        UnsupportedError: It offers none of that name; lists those it does.
    """
    for spec in info.policies:
        if spec.name == name:
            return spec
    known = [spec.name for spec in info.policies]
    near = nearest(name, known, 1)
    raise UnsupportedError(
        "the server has no such policy",
        field="policy",
        value=name,
        allowed=known,
        hint=f"did you mean {near[0]!r}?" if near else "",
    )


def _reason_of(error: BaseException) -> str:
    text = str(error)
    return type(error).__name__ + (f": {text}" if text else "")


def _not_entered() -> RobotSdkError:
    return EpisodeEndedError(
        "the episode has not been entered", hint="use it as `with client.episode(...) as episode:`"
    )
