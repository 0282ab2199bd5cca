"""A policy stream in memory, in virtual or real time, for tests of controllers and of the SDK."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Union

import numpy as np
from numpy.typing import NDArray

from robot_sdk.chunks import ChunkArrival, ChunkFailure, PolicyObservation, PolicyTiming
from robot_sdk.clock import Clock
from robot_sdk.errors import EpisodeError, RobotSdkError
from robot_sdk.spec import ActionDimension, PolicySpec

#: A chunk, an error in its place, or None: no answer ever comes.
VirtualAnswer = Union[NDArray[np.generic], RobotSdkError, None]


def plain_spec(
    *,
    name: str = "virtual",
    action_dim: int = 1,
    horizon: int = 10,
    executed_steps: int = 5,
    control_hz: float = 20.0,
    limit: float | None = None,
) -> PolicySpec:
    """A spec without observation keys; every dimension limited to -limit..limit, or unlimited."""
    minimum = None if limit is None else -limit
    return PolicySpec(
        name=name,
        version="1",
        action_dimensions=tuple(
            ActionDimension(f"a{i}", "m", "world", "absolute", minimum, limit)
            for i in range(action_dim)
        ),
        control_hz=control_hz,
        horizon=horizon,
        executed_steps=executed_steps,
        observation_keys=(),
    )


def step_numbers(spec: PolicySpec) -> Callable[[PolicyObservation], VirtualAnswer]:
    """A policy whose row for step s is s in every dimension, so that a seam shows in the values."""

    def answer(observation: PolicyObservation) -> VirtualAnswer:
        steps = observation.control_step + np.arange(spec.horizon, dtype=np.float32)
        return np.repeat(steps[:, np.newaxis], spec.action_dim, axis=1)

    return answer


class VirtualPolicyStream:
    """A `PolicyStream` whose answers arrive a set time after they were asked for.

    An answer is computed when the observation is sent and delivered once the clock has reached
    sending time + latency; answers may overtake each other. For one thread.
    """

    def __init__(
        self,
        spec: PolicySpec,
        clock: Clock,
        *,
        answer: Callable[[PolicyObservation], VirtualAnswer] | None = None,
        latency_s: float | Callable[[PolicyObservation], float] = 0.0,
        next_observation_in_s: float | None = None,
    ) -> None:
        """A stream on which nothing has been asked yet.

        Args:
            spec: What the stream says it serves.
            clock: The control loop's clock.
            answer: What the policy answers; None: `step_numbers`.
            latency_s: Seconds from sending to arrival, fixed or per observation.
            next_observation_in_s: Put on every chunk.
        """
        self._spec = spec
        self._clock = clock
        self._answer = step_numbers(spec) if answer is None else answer
        self._latency_s = latency_s
        self._next_observation_in_s = next_observation_in_s
        self._due: list[tuple[float, int, ChunkArrival | ChunkFailure]] = []
        self._lost: EpisodeError | None = None
        #: Every observation that was sent, oldest first.
        self.observations: list[PolicyObservation] = []
        #: How often `close` was called.
        self.num_closed = 0

    @property
    def spec(self) -> PolicySpec:
        return self._spec

    def lose_episode(self, error: EpisodeError) -> None:
        """From now on the stream raises `error`."""
        self._lost = error

    def send(self, observation: PolicyObservation) -> None:
        self._raise_if_lost()
        self.observations.append(observation)
        answer = self._answer(observation)
        if answer is None:
            return
        now_s = self._clock.now_s()
        latency_s = self._latency_s(observation) if callable(self._latency_s) else self._latency_s
        arrival: ChunkArrival | ChunkFailure
        if isinstance(answer, RobotSdkError):
            arrival = ChunkFailure(observation.sequence, observation.control_step, answer)
        else:
            arrival = ChunkArrival(
                sequence=observation.sequence,
                control_step=observation.control_step,
                actions=answer,
                timing=PolicyTiming(),
                sent_s=now_s,
                received_s=now_s + latency_s,
                next_observation_in_s=self._next_observation_in_s,
            )
        heapq.heappush(self._due, (now_s + latency_s, observation.sequence, arrival))

    def poll(self) -> list[ChunkArrival | ChunkFailure]:
        self._raise_if_lost()
        arrived: list[ChunkArrival | ChunkFailure] = []
        # 1e-9: an answer after exactly n periods is there at tick n, whatever floats make of it.
        while self._due and self._due[0][0] <= self._clock.now_s() + 1e-9:
            arrived.append(heapq.heappop(self._due)[2])
        return arrived

    def wait(self, timeout_s: float) -> bool:
        """Sleep until the next arrival or the timeout; a virtual clock jumps."""
        now_s = self._clock.now_s()
        if self._due and self._due[0][0] <= now_s + timeout_s:
            self._clock.sleep_until(self._due[0][0])
            return True
        self._clock.sleep_until(now_s + timeout_s)
        return False

    def close(self) -> None:
        self.num_closed += 1
        self._due.clear()

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost
