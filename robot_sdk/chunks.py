"""What passes between a control loop and a policy: observations out, chunks or failures in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import RobotSdkError
from robot_sdk.observation import Observation
from robot_sdk.spec import PolicySpec


@dataclass(frozen=True)
class PolicyObservation:
    """One observation on its way to a policy.

    Attributes:
        sequence: Counts up from 0 within one stream; a repeated sequence is answered once.
        control_step: Step at which it was taken. Row i of the answer belongs to step
            `control_step + i`.
        observation: The sensor values.
        buffered_steps: Rows that the robot can still execute without this answer.
        deadline_s: Seconds from sending within which the answer is of use. None: no deadline.
        trace: Trace context of the request's span, None without telemetry.
        committed_actions: Rows of `control_step` and the steps after it that will be executed
            whatever the answer says, shape (n, action_dim), float32; for policies that continue a
            chunk in progress. None: there are none, or the policy has no use for them.
    """

    sequence: int
    control_step: int
    observation: Observation
    buffered_steps: int
    deadline_s: float | None = None
    trace: common_pb2.TraceContext | None = None
    committed_actions: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class PolicyTiming:
    """Where the time of one chunk went, by the server. None: not measured. Never 0 for unknown.

    Attributes:
        server_received_ns, server_done_ns: Server's monotonic clock; comparable with the robot's
            clock only through the measured offset.
        batch_wait_s: Waiting for a batch to form or for the worker to be free.
        preprocess_s: Decoding and preparing inputs.
        infer_s: Whole time in the model worker; vision, prefill and denoise are parts of it.
        batch_size: Observations that were computed together.
        modelled_delay_s: Delay that was added on purpose. None: none.
        worker: Name of the worker that computed it, empty if unknown.
    """

    server_received_ns: int | None = None
    server_done_ns: int | None = None
    batch_wait_s: float | None = None
    preprocess_s: float | None = None
    vision_s: float | None = None
    prefill_s: float | None = None
    denoise_s: float | None = None
    infer_s: float | None = None
    batch_size: int | None = None
    modelled_delay_s: float | None = None
    worker: str = ""


@dataclass(frozen=True)
class ChunkArrival:
    """A chunk that came back. `sent_s` and `received_s` are on the stream's (the robot's) clock.

    Attributes:
        sequence, control_step: Those of the observation it answers.
        actions: As the server sent it; expected (horizon, action_dim) float32 in the units of the
            PolicySpec. Not trusted: `ActionGuard.check_chunk` decides whether it may be used.
        next_observation_in_s: When the server would like the next observation, counted from the
            sending of this chunk. A robot may only move a request earlier to follow it.
    """

    sequence: int
    control_step: int
    actions: NDArray[np.generic]
    timing: PolicyTiming
    sent_s: float
    received_s: float
    next_observation_in_s: float | None = None


@dataclass(frozen=True)
class ChunkFailure:
    """One observation got no chunk. The stream goes on."""

    sequence: int
    control_step: int
    error: RobotSdkError


class PolicyStream(Protocol):
    """One open stream of a policy with one instruction. Thread-safe.

    A broken connection is the stream's own business: it reopens with capped backoff and reports a
    `ChunkFailure` for what was in flight. Methods raise an `EpisodeError` once the episode is lost.
    """

    @property
    def spec(self) -> PolicySpec:
        """What the policy expects and promises."""

    def send(self, observation: PolicyObservation) -> None:
        """Hand over an observation. Returns at once; a newer one may replace an unsent older one.

        Raises:
            InvalidArgumentError: The observation cannot be sent (missing key, dtype, size).
            EpisodeError: The episode is lost.
        """

    def poll(self) -> list[ChunkArrival | ChunkFailure]:
        """What has arrived since the last call, oldest first. Never blocks.

        Raises:
            EpisodeError: The episode is lost.
        """

    def wait(self, timeout_s: float) -> bool:
        """Block until `poll` has something to say, at most `timeout_s`. False: time ran out."""

    def close(self) -> None:
        """Give up what is in flight and free the stream. Nothing of it is delivered later."""
