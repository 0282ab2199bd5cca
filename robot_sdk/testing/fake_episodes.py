"""Episodes of a fake server: queue, admission, epochs, ends. No timers: tests say what expires."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field

from robot_sdk.api.v1 import brain_pb2, common_pb2, episode_pb2
from robot_sdk.clock import Clock, to_ns
from robot_sdk.errors import (
    DrainingError,
    EpisodeEndedError,
    EpisodeLostError,
    EpisodeUnknownError,
    FencedError,
    InvalidArgumentError,
    RobotSdkError,
    ServerUnavailableError,
    UnauthenticatedError,
    to_detail,
)
from robot_sdk.testing.responses import Responses


@dataclass
class FakeEpisode:
    """What a fake server knows about one episode. Tests read it."""

    request: episode_pb2.OpenEpisode
    id: str
    secret: str
    epoch: int = 0
    is_admitted: bool = False
    over: RobotSdkError | None = None
    outcome: int | None = None
    end_reason: str = ""
    heartbeats: list[episode_pb2.Heartbeat] = field(default_factory=list)
    committed: dict[int, list[brain_pb2.DecideResponse]] = field(default_factory=dict)
    num_chunks: int = 0
    session: FakeRunSession | None = None


class FakeEpisodes:
    """All episodes of one fake server. Thread-safe."""

    def __init__(
        self, clock: Clock, cap: int | None, lease_ttl_s: float, heartbeat_interval_s: float
    ) -> None:
        self.lock = threading.RLock()
        self.boot_id = uuid.uuid4().hex
        self.all: list[FakeEpisode] = []
        self.cap = cap
        self.is_draining = False
        self._clock = clock
        self._lease_ttl_s = lease_ttl_s
        self._heartbeat_interval_s = heartbeat_interval_s

    @property
    def active(self) -> list[FakeEpisode]:
        """Admitted and not over."""
        return [item for item in self.all if item.is_admitted and item.over is None]

    @property
    def waiting(self) -> list[FakeEpisode]:
        """In the queue, first come first."""
        return [item for item in self.all if not item.is_admitted and item.over is None]

    def find(self, ref: common_pb2.EpisodeRef) -> FakeEpisode:
        """The running episode that a call names.

        Raises:
            EpisodeError: There is none, or the call is of an older epoch.
            UnauthenticatedError: Wrong secret.
        """
        with self.lock:
            if ref.server_boot_id != self.boot_id:
                raise EpisodeLostError("the server has restarted since")
            for episode in self.all:
                if episode.id == ref.episode_id:
                    break
            else:
                raise EpisodeUnknownError("no such episode", value=ref.episode_id)
            if ref.episode_secret != episode.secret:
                raise UnauthenticatedError("wrong episode secret")
            if episode.over is not None:
                raise episode.over
            if ref.epoch < episode.epoch:
                raise FencedError("a newer stream has taken over", value=ref.epoch)
            return episode

    def open(self, session: FakeRunSession, request: episode_pb2.OpenEpisode) -> FakeEpisode:
        """Queue a new episode, or join the place that its open_id already has."""
        with self.lock:
            for episode in self.all:
                if episode.request.open_id == request.open_id and episode.over is None:
                    break
            else:
                if self.is_draining:
                    raise DrainingError("the server is draining")
                number = len(self.all)
                episode = FakeEpisode(request, f"episode-{number}", uuid.uuid4().hex)
                self.all.append(episode)
            episode.session = session
            if episode.is_admitted:
                self._tell_admitted(episode)
            else:
                self.admit()
            return episode

    def resume(self, session: FakeRunSession, request: episode_pb2.ResumeEpisode) -> FakeEpisode:
        """Hand an admitted episode over to a new stream and fence the old one."""
        with self.lock:
            episode = self.find(request.episode)
            older = episode.session
            if older is not None and older is not session:
                older.revoke(FencedError("a newer stream has taken over"))
            episode.session = session
            self._tell_admitted(episode)
            return episode

    def admit(self) -> None:
        """Fill free slots from the queue and tell those who wait on."""
        with self.lock:
            for episode in self.waiting:
                if self.cap is not None and len(self.active) >= self.cap:
                    break
                episode.is_admitted = True
                self._tell_admitted(episode)
            for position, episode in enumerate(self.waiting, start=1):
                if episode.session is not None:
                    episode.session.responses.put(self._queued(position))

    def close(self, episode: FakeEpisode, over: RobotSdkError) -> None:
        """The episode is over; the next one gets its slot."""
        with self.lock:
            if episode.over is None:
                episode.over = over
                self.admit()

    def forget(self) -> None:
        """What a restart does."""
        with self.lock:
            self.boot_id = uuid.uuid4().hex
            self.all.clear()

    def _tell_admitted(self, episode: FakeEpisode) -> None:
        episode.epoch += 1
        if episode.session is None:
            return
        episode.session.responses.put(
            episode_pb2.RunResponse(
                admitted=episode_pb2.Admitted(
                    episode_id=episode.id,
                    episode_secret=episode.secret,
                    server_boot_id=self.boot_id,
                    epoch=episode.epoch,
                    lease_ttl_s=self._lease_ttl_s,
                    heartbeat_interval_s=self._heartbeat_interval_s,
                    committed_turns=len(episode.committed),
                )
            )
        )

    def _queued(self, position: int) -> episode_pb2.RunResponse:
        return episode_pb2.RunResponse(
            queued=episode_pb2.Queued(
                position=position,
                num_waiting=len(self.waiting),
                reason=f"static-cap {self.cap}",
                heartbeat_interval_s=self._heartbeat_interval_s,
                lease_ttl_s=self._lease_ttl_s,
            )
        )


class FakeRunSession:
    """The server's half of one Run stream."""

    def __init__(self, episodes: FakeEpisodes, clock: Clock) -> None:
        self.responses: Responses[episode_pb2.RunResponse] = Responses()
        self._episodes = episodes
        self._clock = clock
        self._episode: FakeEpisode | None = None

    def handle(self, request: episode_pb2.RunRequest) -> None:
        """Take in one message of the client."""
        if self.responses.is_over:
            return
        try:
            self._handle(request)
        except RobotSdkError as error:
            self.responses.fail(error)

    def revoke(self, error: RobotSdkError) -> None:
        """Tell the client that its lease is gone, and end the stream."""
        detail = to_detail(error)
        self.responses.put(episode_pb2.RunResponse(revoked=episode_pb2.Revoked(error=detail)))
        self.responses.finish()

    def break_off(self) -> None:
        """What a cut connection does."""
        self.responses.fail(ServerUnavailableError("the connection broke"))

    def _handle(self, request: episode_pb2.RunRequest) -> None:
        kind = request.WhichOneof("message")
        if kind == "open":
            self._episode = self._episodes.open(self, request.open)
        elif kind == "resume":
            self._episode = self._episodes.resume(self, request.resume)
        elif self._episode is None:
            raise InvalidArgumentError("the first message must be open or resume")
        elif kind == "heartbeat":
            self._on_heartbeat(self._episode, request.heartbeat)
        elif kind == "end":
            self._on_end(self._episode, request.end)

    def _on_heartbeat(self, episode: FakeEpisode, heartbeat: episode_pb2.Heartbeat) -> None:
        received_ns = to_ns(self._clock.now_s())
        if episode.over is not None:
            raise episode.over
        episode.heartbeats.append(heartbeat)
        self.responses.put(
            episode_pb2.RunResponse(
                heartbeat_ack=episode_pb2.HeartbeatAck(
                    sequence=heartbeat.sequence,
                    robot_sent_ns=heartbeat.robot_sent_ns,
                    server_received_ns=received_ns,
                    server_sent_ns=to_ns(self._clock.now_s()),
                )
            )
        )

    def _on_end(self, episode: FakeEpisode, end: episode_pb2.EndEpisode) -> None:
        if episode.over is not None:
            raise episode.over
        episode.outcome, episode.end_reason = end.outcome, end.reason
        self._episodes.close(episode, EpisodeEndedError("the episode has ended"))
        self.responses.put(
            episode_pb2.RunResponse(
                ended=episode_pb2.Ended(
                    outcome=end.outcome,
                    committed_turns=len(episode.committed),
                    chunks_served=episode.num_chunks,
                )
            )
        )
        self.responses.finish()
