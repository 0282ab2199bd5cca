"""A server in memory that keeps the contract of the wire and has levers for every bad day.

It knows queues, epochs, commits and replays, but no timers: a test says what expires and when.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import brain_pb2, control_pb2, episode_pb2
from robot_sdk.channel import MAX_MESSAGE_BYTES
from robot_sdk.clock import SYSTEM_CLOCK, Clock, to_ns, wall_unix_ns
from robot_sdk.errors import LeaseExpiredError, RobotSdkError, ServerUnavailableError
from robot_sdk.spec import PolicySpec
from robot_sdk.spec_codec import encode_spec
from robot_sdk.testing.fake_brain import Brain, BrainFaults, FakeDecideSession, FakeDecision
from robot_sdk.testing.fake_episodes import FakeEpisode, FakeEpisodes, FakeRunSession
from robot_sdk.testing.fake_policy import FakeChunkSession, FakePolicyInput, Policy

Session = FakeRunSession | FakeDecideSession | FakeChunkSession


class FakeServer:
    """Scriptable brain and policy behind the real messages.

    Args:
        brain: Decides one turn; None for one that says "done" at once.
        policy: Makes the rows of a chunk; None for zeros.
        specs: Policies it offers.
        cap: Episodes admitted at a time; None for no limit.
        chunk_delay_s: Time each chunk takes, on `clock`.
        clock: With a VirtualClock, delays jump instead of waiting.
        lease_ttl_s, heartbeat_interval_s: Terms told to clients; real time.
        max_message_bytes: Limit told to clients.
        first_observation_in_s: What ChunksOpened says about the first observation; None: nothing.
    """

    def __init__(
        self,
        *,
        brain: Brain | None = None,
        policy: Policy | None = None,
        specs: Sequence[PolicySpec] = (),
        cap: int | None = None,
        chunk_delay_s: float = 0.0,
        clock: Clock = SYSTEM_CLOCK,
        lease_ttl_s: float = 10.0,
        heartbeat_interval_s: float = 2.0,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        first_observation_in_s: float | None = None,
    ) -> None:
        self.brain: Brain = brain or _say_done
        self.policy: Policy = policy or self._zeros
        self.specs = tuple(specs)
        self.chunk_delay_s = chunk_delay_s
        self.episodes = FakeEpisodes(clock, cap, lease_ttl_s, heartbeat_interval_s)
        self.brain_faults = BrainFaults()
        self.decide_requests: list[brain_pb2.DecideRequest] = []
        self.chunk_sessions: list[FakeChunkSession] = []
        self.run_requests: list[episode_pb2.RunRequest] = []
        self._clock = clock
        self._lease_ttl_s = lease_ttl_s
        self._heartbeat_interval_s = heartbeat_interval_s
        self._max_message_bytes = max_message_bytes
        self._first_observation_in_s = first_observation_in_s
        self._is_down = False
        self._sessions: list[Session] = []

    # Calls, as a transport makes them.

    def handshake(self, request: control_pb2.HandshakeRequest) -> control_pb2.HandshakeResponse:
        """ControlService.Handshake."""
        self._check_up()
        return control_pb2.HandshakeResponse(
            server="fake",
            protocol="v1",
            server_boot_id=self.episodes.boot_id,
            roles=["brain", "policy"],
            policies=[encode_spec(spec) for spec in self.specs],
            brain=control_pb2.BrainInfo(engine="fake", model="fake", accepts_images=True),
            limits=control_pb2.ServerLimits(
                max_message_bytes=self._max_message_bytes,
                min_keepalive_interval_s=10.0,
                lease_ttl_s=self._lease_ttl_s,
                heartbeat_interval_s=self._heartbeat_interval_s,
            ),
        )

    def exchange(self, request: control_pb2.ExchangeRequest) -> control_pb2.ExchangeResponse:
        """ControlService.Exchange."""
        self._check_up()
        now_ns = to_ns(self._clock.now_s())
        return control_pb2.ExchangeResponse(
            robot_sent_ns=request.robot_sent_ns,
            server_received_ns=now_ns,
            server_sent_ns=now_ns,
            server_boot_id=self.episodes.boot_id,
            server_wall_unix_ns=wall_unix_ns(),
        )

    def open_run(self) -> FakeRunSession:
        """EpisodeService.Run."""
        session = FakeRunSession(self.episodes, self._clock)
        self._watch(session)
        return session

    def decide(self, request: brain_pb2.DecideRequest) -> FakeDecideSession:
        """BrainService.Decide."""
        self.decide_requests.append(request)
        session = FakeDecideSession(
            request, self.episodes, self.brain, self.brain_faults, self._clock
        )
        self._watch(session)
        session.start()
        return session

    def open_chunks(self) -> FakeChunkSession:
        """PolicyService.Chunks."""
        session = FakeChunkSession(
            self.episodes,
            self.specs,
            self._run_policy,
            self.chunk_delay_s,
            self._clock,
            self._first_observation_in_s,
        )
        self.chunk_sessions.append(session)
        self._watch(session)
        return session

    # Levers.

    def advise_pace(self, grid_shift_s: float, sustainable_control_hz: float | None = None) -> None:
        """Send every admitted episode a Pacing message."""
        pacing = episode_pb2.Pacing(
            grid_shift_s=grid_shift_s, sustainable_control_hz=sustainable_control_hz
        )
        for episode in self.episodes.active:
            if episode.session is not None:
                episode.session.responses.put(episode_pb2.RunResponse(pacing=pacing))

    def break_streams(self) -> None:
        """Cut every open stream. Leases stay."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.break_off()

    def go_down(self) -> None:
        """Cut every stream and refuse new ones until `come_back`."""
        self._is_down = True
        self.break_streams()

    def come_back(self) -> None:
        """Accept connections again, with all episodes as they were."""
        self._is_down = False

    def restart(self) -> None:
        """Come back as a new process that has forgotten everything."""
        self.go_down()
        self.episodes.forget()
        self.come_back()

    def expire(self, episode: FakeEpisode) -> None:
        """Let a lease run out."""
        self.revoke(episode, LeaseExpiredError("no heartbeat came in time"))

    def revoke(self, episode: FakeEpisode, error: RobotSdkError) -> None:
        """Take an episode away from its robot."""
        self.episodes.close(episode, error)
        if episode.session is not None:
            episode.session.revoke(error)

    def _watch(self, session: Session) -> None:
        self._sessions = [item for item in self._sessions if not item.responses.is_over]
        self._sessions.append(session)
        if self._is_down:
            session.break_off()

    def _check_up(self) -> None:
        if self._is_down:
            raise ServerUnavailableError("the fake server is down")

    def _run_policy(self, item: FakePolicyInput) -> NDArray[np.generic]:
        # Looked up for every chunk, so that a test may change the policy under a stream.
        return self.policy(item)

    def _zeros(self, item: FakePolicyInput) -> NDArray[np.generic]:
        spec = next(spec for spec in self.specs if spec.name == item.policy)
        return np.zeros((spec.horizon, spec.action_dim), np.float32)


def _say_done(request: brain_pb2.DecideRequest) -> FakeDecision:
    del request
    return FakeDecision(text="done")
