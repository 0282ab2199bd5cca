"""The control loop of one robot in a fleet's virtual time, as its tools use it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import ActionSource, Tick
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.chunks import ChunkFailure, PolicyObservation, PolicyStream
from robot_sdk.errors import DeadlineExceededError, LoopStoppedError
from robot_sdk.latency_window import LatencyWindow
from robot_sdk.loop_state import LoopState, SourceReport
from robot_sdk.policy_source import ChunkRecord, PolicySource
from robot_sdk.request_timing import RequestTiming
from robot_sdk.robot import Robot
from robot_sdk.testing import VirtualControl
from sim.closed_loop.fleet_clock import FleetClock
from sim.fleet.action import FleetRun

T = TypeVar("T")

#: Real seconds that the policy behind the tier may take for one chunk.
_ANSWER_TIMEOUT_S = 60.0

OpenPolicy = Callable[[str, str, tuple[str, ...]], PolicyStream]


class VirtualBody:
    """Runs tools on the SDK's own control loop, in real-time pace on a virtual clock.

    The loop ticks whether a tool is running or not, so the world goes on while a chunk is late or
    the brain thinks. What the policy says comes from `open_policy`, when it is there from the
    action tier of the fleet.

    Args:
        robot: Driven by the loop.
        fleet: Its action tier serves the robot's chunks.
        clock: Of that fleet.
        open_policy: From policy, instruction and observation keys to the stream that computes.
        max_env_steps: Budget of control steps with a tool running.

    Attributes:
        chunks: What became of every observation.
    """

    def __init__(
        self,
        robot: Robot,
        fleet: FleetRun,
        clock: FleetClock,
        open_policy: OpenPolicy,
        *,
        guard: ActionGuard | None = None,
        max_env_steps: int,
    ) -> None:
        self.chunks: list[ChunkRecord] = []
        self._robot = robot
        self._fleet = fleet
        self._clock = clock
        self._open_policy = open_policy
        self._max_env_steps = max_env_steps
        self._control = VirtualControl(robot, clock, pace="realtime", guard=guard)
        self._latencies = LatencyWindow()
        self._num_streams = 0

    @property
    def state(self) -> LoopState:
        """Counters of the control loop."""
        return self._control.state()

    def call(self, function: Callable[[Robot], T]) -> T:
        """Run a function between two ticks. It takes no time."""
        return function(self._robot)

    def remaining_steps(self) -> int:
        """What is left of the step budget."""
        return max(0, self._max_env_steps - self.state.active_steps)

    def pass_time(self, until_s: float) -> None:
        """The world goes on to a moment of the clock, the robot holding in every tick."""
        while True:
            due_s = self._control.due_s()
            if due_s is None or due_s > until_s:
                break
            self._control.tick()
        self._clock.sleep_until(until_s)

    def run(self, source: ActionSource) -> SourceReport:
        """Run an action source to its end.

        Raises:
            Exception: Whatever the source or the robot raised.
        """
        # A source is bounded by its own budget; the limit only has to be beyond it.
        run = self._control.finish(self._control.submit(source), max_ticks=1_000_000)
        if run.error is not None:
            raise run.error
        if run.report is None:
            raise LoopStoppedError("the source ended without a report")
        return run.report

    def run_policy(
        self,
        policy: str,
        instruction: str,
        *,
        observation_keys: tuple[str, ...],
        max_steps: int,
        stop_when: Callable[[Tick], object | None],
        name: str,
    ) -> SourceReport:
        """Run a policy until `stop_when` says something or steps run out."""
        answers = self._open_policy(policy, instruction, observation_keys)
        try:
            self._num_streams += 1
            # Numbers below 0, because the fleet's own robots count from 0.
            stream = self._fleet.stream(-self._num_streams, answers.spec, _Answers(answers))
            asked_s, answered_s = stream.opened_s()
            self.pass_time(asked_s)
            first_s = self._fleet.open(stream, answered_s)
            try:
                self.pass_time(answered_s)
                source = PolicySource(
                    stream,
                    ChunkBuffer(),
                    RequestTiming.from_spec(
                        stream.spec, control_hz=self._robot.control_hz, latencies=self._latencies
                    ),
                    max_steps=max_steps,
                    observation_keys=observation_keys,
                    stop_when=stop_when,
                    on_chunk=self.chunks.append,
                    name=name,
                    first_observation_s=first_s,
                )
                return self.run(source)
            finally:
                self._fleet.tier.close_stream(stream)
        finally:
            answers.close()


class _Answers:
    """What a policy says to an observation, however long it really takes."""

    def __init__(self, stream: PolicyStream) -> None:
        self._stream = stream

    def __call__(self, observation: PolicyObservation) -> NDArray[np.generic]:
        """Its chunk.

        Raises:
            RobotSdkError: The policy failed, or did not answer.
        """
        # Deadlines of virtual time mean nothing to the process that computes.
        self._stream.send(dataclasses.replace(observation, deadline_s=None, trace=None))
        while self._stream.wait(_ANSWER_TIMEOUT_S):
            for answer in self._stream.poll():
                if answer.sequence != observation.sequence:
                    continue
                if isinstance(answer, ChunkFailure):
                    raise answer.error
                return answer.actions
        raise DeadlineExceededError(
            f"the policy gave no chunk for sequence {observation.sequence} within "
            f"{_ANSWER_TIMEOUT_S:g} s of real time"
        )
