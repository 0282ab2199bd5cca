"""The client's half of an episode's lease, as a pure state machine.

It is told what happened (a stream opened, a message came, a stream broke, the user wants to end)
and answers what to do next (open a stream, send a heartbeat, wait until). It reads no clock and
does no I/O; `robot_sdk.lease_client` does both.

    OPENING ──▶ QUEUED ──▶ ADMITTED ──▶ ENDING ──▶ ENDED
        └─────────┴───────────┴───────────┴──────▶ LOST

ENDED and LOST are final: nothing that arrives later brings an episode back to life.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.backoff import Backoff
from robot_sdk.errors import (
    DrainingError,
    EpisodeEndedError,
    EpisodeError,
    EpisodeLostError,
    LeaseExpiredError,
    OverloadedError,
    PersistentError,
    RobotSdkError,
    ServerUnavailableError,
    from_detail,
)

#: Until the server says otherwise.
DEFAULT_LEASE_TTL_S = 10.0
DEFAULT_HEARTBEAT_INTERVAL_S = 2.0
#: The server's timer may be this late; only after it a lease has certainly run out.
EXPIRY_MARGIN_S = 1.0


class LeasePhase(Enum):
    """Where an episode stands."""

    OPENING = "opening"
    QUEUED = "queued"
    ADMITTED = "admitted"
    ENDING = "ending"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True)
class OpenStream:
    """Open a new stream with this first message, then report `stream_opened`."""

    request: episode_pb2.RunRequest


@dataclass(frozen=True)
class SendHeartbeat:
    """Send a heartbeat with the newest robot state."""

    sequence: int


@dataclass(frozen=True)
class SendEnd:
    """Send EndEpisode."""

    request: episode_pb2.RunRequest


@dataclass(frozen=True)
class DropStream:
    """Cancel the stream: the server has not answered on it for a whole lease time."""


@dataclass(frozen=True)
class Wait:
    """Nothing to do before `until_s`, or before something happens."""

    until_s: float


@dataclass(frozen=True)
class Stop:
    """The episode is over."""


Step = OpenStream | SendHeartbeat | SendEnd | DropStream | Wait | Stop


class LeaseMachine:
    """One episode's lease. Not thread-safe.

    Args:
        request: What to ask for; its open_id keeps the place in the queue over reconnections.
        now_s: Now; all later times are on the same clock.
        connect_timeout_s: How long the server may fail to answer before the first word from it.
    """

    def __init__(
        self, request: episode_pb2.OpenEpisode, now_s: float, connect_timeout_s: float
    ) -> None:
        self._open = request
        self._connect_timeout_s = connect_timeout_s
        self.phase = LeasePhase.OPENING
        self.admitted: episode_pb2.Admitted | None = None
        self.queued: episode_pb2.Queued | None = None
        self.draining: episode_pb2.Draining | None = None
        self.pacing: episode_pb2.Pacing | None = None
        self.pacing_received_s: float | None = None
        self.ended: episode_pb2.Ended | None = None
        self.lost: RobotSdkError | None = None
        #: Turns that this client has seen committed; told to the server on a resume.
        self.next_turn_index = 0
        self._end: episode_pb2.EndEpisode | None = None
        self._end_sent = False
        self._lease_ttl_s = DEFAULT_LEASE_TTL_S
        self._heartbeat_interval_s = DEFAULT_HEARTBEAT_INTERVAL_S
        self._stream_id = 0
        self._stream_is_open = False
        self._answered = False  # the server has spoken on the present stream
        self._heard_s = now_s  # last word from the server, or start of the present stream
        self._next_heartbeat_s = now_s
        self._sequence = 0
        self._backoff = Backoff()
        self._next_try_s = now_s
        self._give_up_s = now_s + connect_timeout_s
        self._last_break: RobotSdkError | None = None

    @property
    def is_over(self) -> bool:
        """Ended or lost; final."""
        return self.phase in (LeasePhase.ENDED, LeasePhase.LOST)

    @property
    def is_connected(self) -> bool:
        """The server has answered on the present stream."""
        return self._stream_is_open and self._answered

    @property
    def episode(self) -> common_pb2.EpisodeRef | None:
        """What other calls must say about the episode; None before admission."""
        if self.admitted is None:
            return None
        return common_pb2.EpisodeRef(
            episode_id=self.admitted.episode_id,
            episode_secret=self.admitted.episode_secret,
            epoch=self.admitted.epoch,
            server_boot_id=self.admitted.server_boot_id,
        )

    # What to do next.

    def next_step(self, now_s: float) -> Step:
        """The next thing to do. Ask again after doing it, and whenever something happened."""
        if self.is_over:
            return Stop()
        if not self._stream_is_open:
            return self._step_without_stream(now_s)
        if self._end is not None and not self._end_sent and (self._answered or self._may_end_now):
            self._end_sent = True
            return SendEnd(episode_pb2.RunRequest(end=self._end))
        silent_until_s = self._heard_s + self._silence_limit_s
        if now_s >= silent_until_s:
            return DropStream()
        if not self._answered or self._end_sent:
            return Wait(silent_until_s)
        if now_s >= self._next_heartbeat_s:
            self._sequence += 1
            # From now and not from the last one's due time: after a stall one heartbeat is enough.
            self._next_heartbeat_s = now_s + self._heartbeat_interval_s
            return SendHeartbeat(self._sequence)
        return Wait(min(self._next_heartbeat_s, silent_until_s))

    def _step_without_stream(self, now_s: float) -> Step:
        if self._end is not None and self.admitted is None:
            # Nothing to give back; a place in the queue goes when its heartbeats stay away.
            self.phase = LeasePhase.ENDED
            return Stop()
        if now_s >= self._give_up_s:
            self._lose(self._unreachable(now_s))
            return Stop()
        if now_s < self._next_try_s:
            return Wait(min(self._next_try_s, self._give_up_s))
        return OpenStream(self._first_request())

    @property
    def _may_end_now(self) -> bool:
        """Before admission the first message is OpenEpisode, and EndEpisode may follow at once."""
        return self.admitted is None

    @property
    def _silence_limit_s(self) -> float:
        if self.admitted is None and self.queued is None:
            return self._connect_timeout_s
        return self._lease_ttl_s

    def _first_request(self) -> episode_pb2.RunRequest:
        episode = self.episode
        if episode is None:
            return episode_pb2.RunRequest(open=self._open)
        return episode_pb2.RunRequest(
            resume=episode_pb2.ResumeEpisode(
                episode=episode, next_turn_index=self.next_turn_index, trace=self._open.trace
            )
        )

    # What happened.

    def stream_opened(self, now_s: float) -> int:
        """A stream was opened and its first message sent. Returns its number."""
        self._stream_id += 1
        self._stream_is_open = True
        self._answered = False
        self._end_sent = False
        self._heard_s = now_s
        self._sequence = 0
        return self._stream_id

    def received(self, stream_id: int, response: episode_pb2.RunResponse, now_s: float) -> None:
        """The server said something on a stream. Words on an older stream are ignored."""
        if stream_id != self._stream_id or not self._stream_is_open or self.is_over:
            return
        self._heard_s = now_s
        kind = response.WhichOneof("message")
        if kind == "queued":
            self._on_queued(response.queued, now_s)
        elif kind == "admitted":
            self._on_admitted(response.admitted, now_s)
        elif kind == "pacing":
            self.pacing = response.pacing
            self.pacing_received_s = now_s
        elif kind == "draining":
            self.draining = response.draining
        elif kind == "revoked":
            self._on_refused(from_detail(response.revoked.error))
        elif kind == "ended":
            self._on_ended(response.ended)

    def stream_broke(self, stream_id: int, error: RobotSdkError | None, now_s: float) -> None:
        """A stream ended: with an error, or (None) without the server saying why."""
        if stream_id != self._stream_id or not self._stream_is_open or self.is_over:
            return
        if error is not None and self._is_final(error):
            self._on_refused(error)
            return
        was_answered = self._answered
        self._stream_is_open = False
        self._last_break = error
        if was_answered:
            # A lease that the server knew is kept until nobody can have it any more.
            wait_s = max(self._lease_ttl_s + EXPIRY_MARGIN_S, self._min_outage_s)
            self._give_up_s = now_s + wait_s
        retry_after_s = None if error is None else error.retry_after_s
        self._next_try_s = now_s + self._backoff.next_s(retry_after_s)

    def request_end(
        self,
        outcome: episode_pb2.EpisodeOutcome,
        reason: str,
        final_state: episode_pb2.RobotState | None,
    ) -> None:
        """The user wants the episode to end. The first call counts."""
        if self._end is not None or self.is_over:
            return
        self._end = episode_pb2.EndEpisode(outcome=outcome, reason=reason, final_state=final_state)
        self.phase = LeasePhase.ENDING

    def fail(self, error: RobotSdkError) -> None:
        """Something outside found the episode lost (for example another call was fenced off)."""
        if not self.is_over:
            self._lose(error)

    @property
    def _min_outage_s(self) -> float:
        """A robot that only waits in the queue has nothing to lose by waiting for the server."""
        return self._connect_timeout_s if self.admitted is None else 0.0

    def _on_queued(self, queued: episode_pb2.Queued, now_s: float) -> None:
        if self.admitted is not None:
            return
        self._mark_answered(now_s, queued.heartbeat_interval_s, queued.lease_ttl_s)
        self.queued = queued
        if self.phase is LeasePhase.OPENING:
            self.phase = LeasePhase.QUEUED

    def _on_admitted(self, admitted: episode_pb2.Admitted, now_s: float) -> None:
        before = self.admitted
        if before is not None and admitted.episode_id != before.episode_id:
            self._lose(EpisodeLostError("the server answered a resume with another episode"))
            return
        self._mark_answered(now_s, admitted.heartbeat_interval_s, admitted.lease_ttl_s)
        self.admitted = admitted
        if self.phase in (LeasePhase.OPENING, LeasePhase.QUEUED):
            self.phase = LeasePhase.ADMITTED

    def _mark_answered(self, now_s: float, heartbeat_interval_s: float, ttl_s: float) -> None:
        self._lease_ttl_s = ttl_s or DEFAULT_LEASE_TTL_S
        self._heartbeat_interval_s = heartbeat_interval_s or DEFAULT_HEARTBEAT_INTERVAL_S
        self._backoff.reset()
        if not self._answered:
            self._answered = True
            self._next_heartbeat_s = now_s + self._heartbeat_interval_s

    def _on_ended(self, ended: episode_pb2.Ended) -> None:
        self.ended = ended
        if self._end is None:
            self._lose(EpisodeEndedError("the server ended the episode"))
        else:
            self._close(LeasePhase.ENDED)

    def _on_refused(self, error: RobotSdkError) -> None:
        if self._end is not None and isinstance(error, EpisodeError):
            # The end had arrived and only its answer was lost, or there is nothing left to end.
            self._close(LeasePhase.ENDED)
        else:
            self._lose(error)

    def _is_final(self, error: RobotSdkError) -> bool:
        if isinstance(error, PersistentError):
            # A status without detail may be a proxy's or a dying server's; a resume will tell.
            return type(error).reason != common_pb2.ERROR_REASON_INTERNAL
        refuses_newcomers = isinstance(error, (OverloadedError, DrainingError))
        return refuses_newcomers and self.admitted is None

    def _lose(self, error: RobotSdkError) -> None:
        self.lost = error
        self._close(LeasePhase.LOST)

    def _close(self, phase: LeasePhase) -> None:
        self.phase = phase
        self._stream_is_open = False

    def _unreachable(self, now_s: float) -> RobotSdkError:
        cause = self._last_break
        if self.admitted is not None:
            detail = "" if cause is None else f": {cause}"
            return LeaseExpiredError(
                f"the server was out of reach for longer than the lease of {self._lease_ttl_s:g} s"
                + detail,
                hint="start a new episode",
            )
        if cause is not None:
            return cause
        return ServerUnavailableError(
            f"the server did not answer within {self._connect_timeout_s:g} s"
        )
