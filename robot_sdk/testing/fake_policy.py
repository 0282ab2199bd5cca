"""The policy of a fake server: a function from an observation to rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.clock import Clock, to_ns
from robot_sdk.errors import (
    CancelledByServerError,
    EpisodeError,
    InternalServerError,
    InvalidArgumentError,
    RobotSdkError,
    ServerUnavailableError,
    UnsupportedError,
    to_detail,
)
from robot_sdk.images import decode_rgb8
from robot_sdk.spec import PolicySpec
from robot_sdk.spec_codec import encode_spec
from robot_sdk.tensors import decode_tensor, encode_tensor
from robot_sdk.testing.fake_episodes import FakeEpisode, FakeEpisodes
from robot_sdk.testing.responses import Responses


@dataclass(frozen=True)
class FakePolicyInput:
    """What a scripted policy is asked."""

    policy: str
    instruction: str
    sequence: int
    control_step: int
    tensors: Mapping[str, NDArray[np.generic]]
    images: Mapping[str, NDArray[np.uint8]]
    noise_seed: int | None


#: Returns the rows; anything that is not (horizon, action_dim) float32 is sent as it is, so that
#: tests can see what a client makes of it.
Policy = Callable[[FakePolicyInput], NDArray[np.generic]]


class FakeChunkSession:
    """The server's half of one Chunks stream. A worker thread answers, the newest one first."""

    def __init__(
        self,
        episodes: FakeEpisodes,
        specs: Sequence[PolicySpec],
        policy: Policy,
        delay_s: float,
        clock: Clock,
        first_observation_in_s: float | None = None,
    ) -> None:
        self.responses: Responses[policy_pb2.ChunksResponse] = Responses()
        self.observations: list[policy_pb2.Observation] = []
        self._episodes = episodes
        self._specs = specs
        self._policy = policy
        self._delay_s = delay_s
        self._clock = clock
        self._first_observation_in_s = first_observation_in_s
        self._open: policy_pb2.ChunksOpen | None = None
        self._changed = threading.Condition()
        self._newest: policy_pb2.Observation | None = None
        self._half_closed = False

    def handle(self, request: policy_pb2.ChunksRequest) -> None:
        """Take in one message of the client."""
        if self.responses.is_over:
            return
        try:
            if request.HasField("open"):
                self._on_open(request.open)
            elif self._open is None:
                raise InvalidArgumentError("the first message must be open")
            else:
                self._on_observation(request.observation)
        except RobotSdkError as error:
            self.responses.fail(error)

    def half_close(self) -> None:
        """The client sends nothing more."""
        with self._changed:
            self._half_closed = True
            self._changed.notify_all()
        if self._open is None:
            self.responses.finish()

    def cancel(self) -> None:
        """What a client's cancel does."""
        self._stop(CancelledByServerError("the call was cancelled"))

    def break_off(self) -> None:
        """What a cut connection does."""
        self._stop(ServerUnavailableError("the connection broke"))

    def _stop(self, error: RobotSdkError) -> None:
        self.responses.fail(error)
        with self._changed:
            self._changed.notify_all()

    def _on_open(self, request: policy_pb2.ChunksOpen) -> None:
        self._episodes.find(request.episode)
        known = {spec.name: spec for spec in self._specs}
        if request.policy not in known:
            raise UnsupportedError("no such policy", value=request.policy, allowed=known)
        self._open = request
        opened = policy_pb2.ChunksOpened(
            spec=encode_spec(known[request.policy]),
            next_observation_in_s=self._first_observation_in_s,
        )
        self.responses.put(policy_pb2.ChunksResponse(opened=opened))
        threading.Thread(target=self._work, name="fake-policy", daemon=True).start()

    def _on_observation(self, observation: policy_pb2.Observation) -> None:
        with self._changed:
            self.observations.append(observation)
            replaced, self._newest = self._newest, observation
            self._changed.notify_all()
        if replaced is not None:
            self._fail(replaced, CancelledByServerError("replaced by a newer observation"))

    def _work(self) -> None:
        while True:
            with self._changed:
                while self._newest is None:
                    if self.responses.is_over:
                        return
                    if self._half_closed:
                        self.responses.finish()
                        return
                    self._changed.wait()
                observation, self._newest = self._newest, None
            self._answer(observation)

    def _answer(self, observation: policy_pb2.Observation) -> None:
        assert self._open is not None  # the worker starts with it
        received_ns = to_ns(self._clock.now_s())
        try:
            episode = self._episodes.find(self._open.episode)
            rows = self._policy(_decode(self._open, observation))
            self._pass_time()
        except EpisodeError as error:
            self.responses.fail(error)
        except RobotSdkError as error:
            self._fail(observation, error)
        except Exception:  # noqa: BLE001  (a scripted policy may raise anything)
            self._fail(observation, InternalServerError("the policy failed"))
        else:
            self._send(episode, observation, rows, received_ns)

    def _pass_time(self) -> None:
        end_s = self._clock.now_s() + self._delay_s
        with self._changed:
            while not self.responses.is_over:
                remaining_s = end_s - self._clock.now_s()
                if remaining_s <= 0:
                    return
                self._clock.wait(self._changed, remaining_s)

    def _send(
        self,
        episode: FakeEpisode,
        observation: policy_pb2.Observation,
        rows: NDArray[np.generic],
        received_ns: int,
    ) -> None:
        episode.num_chunks += 1
        chunk = policy_pb2.ActionChunk(
            sequence=observation.sequence,
            control_step=observation.control_step,
            actions=encode_tensor(rows),
            timing=policy_pb2.PolicyTiming(
                server_received_ns=received_ns,
                server_done_ns=to_ns(self._clock.now_s()),
                batch_size=1,
                modelled_delay_s=self._delay_s or None,
                worker="fake",
            ),
        )
        self.responses.put(policy_pb2.ChunksResponse(chunk=chunk))

    def _fail(self, observation: policy_pb2.Observation, error: RobotSdkError) -> None:
        failed = policy_pb2.ChunkFailed(
            sequence=observation.sequence,
            control_step=observation.control_step,
            error=to_detail(error),
        )
        self.responses.put(policy_pb2.ChunksResponse(failed=failed))


def _decode(open_: policy_pb2.ChunksOpen, wire: policy_pb2.Observation) -> FakePolicyInput:
    return FakePolicyInput(
        policy=open_.policy,
        instruction=open_.instruction,
        sequence=wire.sequence,
        control_step=wire.control_step,
        tensors={key: decode_tensor(value, key) for key, value in wire.tensors.items()},
        images={key: decode_rgb8(value, key) for key, value in wire.images.items()},
        noise_seed=open_.noise_seed if open_.HasField("noise_seed") else None,
    )
