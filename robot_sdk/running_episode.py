"""What the tools of a running episode may use: the control loop, the policies, the step budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TypeVar

from robot_sdk.action_source import ActionSource, Tick
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.control import ControlLoop
from robot_sdk.episode import Episode, find_policy
from robot_sdk.episode_trace import EpisodeTrace
from robot_sdk.frame_watch import FrameWatch
from robot_sdk.latency_window import LatencyWindow
from robot_sdk.loop_state import LoopState, SourceReport
from robot_sdk.merging import MergeName
from robot_sdk.policy_client import RemotePolicyStream
from robot_sdk.policy_source import PolicyResult, PolicySource
from robot_sdk.request_timing import RequestTiming
from robot_sdk.robot import Robot
from robot_sdk.server_info import ServerInfo

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class RunningEpisode:
    """One admitted episode with its control loop. Made by `robot_sdk.runner.run_episode`.

    Attributes:
        episode: The episode on the server.
        num_chunks: Valid chunks that policies have delivered so far.
    """

    def __init__(
        self,
        episode: Episode,
        server_info: ServerInfo,
        loop: ControlLoop,
        trace: EpisodeTrace,
        control_hz: float,
        max_env_steps: int | None,
    ) -> None:
        self.episode = episode
        self._server_info = server_info
        self.num_chunks = 0
        self._loop = loop
        self._trace = trace
        self._control_hz = control_hz
        self._max_env_steps = max_env_steps
        # Shared by all runs of the episode: what is known of latencies and cameras stays known.
        self._latencies: dict[str, LatencyWindow] = {}
        self._frame_watch = FrameWatch()
        self._told_hz: float | None = None

    @property
    def state(self) -> LoopState:
        """Counters of the control loop."""
        return self._loop.state()

    def call(self, function: Callable[[Robot], T]) -> T:
        """Run a function on the control thread, between two ticks."""
        return self._loop.call(function)

    def run(self, source: ActionSource, timeout_s: float | None = None) -> SourceReport:
        """Run an action source on the control loop to its end."""
        return self._loop.run(source, timeout_s)

    def run_policy(
        self,
        policy: str,
        instruction: str,
        *,
        max_steps: int,
        observation_keys: Collection[str] | None = None,
        stop_when: Callable[[Tick], object | None] | None = None,
        noise_seed: int | None = None,
        merge: MergeName = "replace",
        name: str = "",
    ) -> SourceReport:
        """Run a policy on the control loop. The report's result is a `PolicyResult`.

        Observations without a usable chunk are logged once, at the end, if the run used up its
        steps: whoever asked cannot tell a policy that failed from a task that takes longer.

        Args:
            policy: Name of a PolicySpec.
            instruction: What it is to do, in words.
            max_steps: Control steps after which it is done.
            observation_keys: What is sent. None: the required keys of the policy's spec.
            stop_when: Asked in every tick; a value other than None ends the run.
            noise_seed: For repeatable chunks; None: the policy's own.
            merge: How a new chunk joins the rows of the one before.
            name: For heartbeats and reports; empty: the policy's name.
        """
        if observation_keys is None:
            keys = find_policy(self._server_info, policy).observation_keys
            observation_keys = [key.name for key in keys if key.required]
        self._tell_of_pace()
        chunks = self._trace.chunks(policy)
        stream = self.episode.open_policy(
            policy,
            instruction,
            tuple(observation_keys),
            control_hz=self._control_hz,
            noise_seed=noise_seed,
            trace=chunks.trace,
        )
        source = PolicySource(
            stream,
            ChunkBuffer(merge),
            RequestTiming(
                horizon=stream.spec.horizon,
                executed_steps=stream.spec.executed_steps,
                control_hz=self._control_hz,
                latencies=self._latencies.setdefault(policy, LatencyWindow()),
            ),
            max_steps=max_steps,
            observation_keys=observation_keys,
            stop_when=stop_when,
            frame_watch=self._frame_watch,
            on_chunk=chunks.ended,
            new_trace=chunks.sent,
            name=name,
            first_observation_s=self._first_observation_s(stream),
        )
        try:
            report = self._loop.run(source)
        finally:
            self.num_chunks += chunks.num_chunks
        _warn_of_failures(policy, report.result)
        return report

    def _first_observation_s(self, stream: RemotePolicyStream) -> float | None:
        """The stream's own word counts more than older advice for the whole episode."""
        if stream.first_observation_s is not None:
            return stream.first_observation_s
        pacing = self.episode.pacing
        return None if pacing is None else pacing.grid_phase_s

    def _tell_of_pace(self) -> None:
        """Say once, and again when it changes, that the server cannot carry this robot's rate."""
        pacing = self.episode.pacing
        rate_hz = None if pacing is None else pacing.sustainable_control_hz
        if rate_hz is None or rate_hz == self._told_hz or rate_hz >= self._control_hz:
            return
        self._told_hz = rate_hz
        _LOG.warning(
            "the server's action tier can carry %.3g Hz at present and this robot runs at %.3g Hz: "
            "expect starved ticks, or run the robot more slowly",
            rate_hz,
            self._control_hz,
        )

    def estop(self, reason: str) -> None:
        """Stop the robot: at most one more action, and the episode ends as aborted. Any thread.

        Returns at once; see `ControlLoop.estop`. Not a safety-rated stop.
        """
        self._loop.estop(reason)

    def remaining_steps(self) -> int:
        """What is left of the episode's step budget; a large number if there is none."""
        if self._max_env_steps is None:
            return 1_000_000_000
        return max(0, self._max_env_steps - self.state.active_steps)


def _warn_of_failures(policy: str, result: object) -> None:
    if not isinstance(result, PolicyResult) or result.ended_by != "max_steps":
        return
    if result.num_failures:
        _LOG.warning(
            "policy %s used up its %d steps with %d chunks and %d failures; the last: %s",
            policy,
            result.steps,
            result.num_chunks,
            result.num_failures,
            result.last_error,
        )
