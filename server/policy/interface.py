"""What an action policy is to this server: observations in, chunks of actions out.

A policy runs in a worker process of its own. Its author implements `Policy` and names a factory in
the configuration (`kind = "factory"`, `factory = "module:callable"`); the factory is called once in
the worker with the `options` of the configuration as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Union

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import BadModelOutputError, InvalidArgumentError, WorkerUnavailableError
from robot_sdk.spec import PolicySpec


@dataclass(frozen=True)
class PolicyInput:
    """One observation of one robot, decoded and checked against the spec.

    Attributes:
        instruction: The instruction of the stream, in words.
        tensors: Named arrays with the dtype and shape of the spec. Writable, owned by the receiver.
        images: Named pictures, uint8 (H, W, 3) RGB, top row first.
        sequence: Number of the observation within its stream.
        control_step: Control step at which it was taken; row i of the answer belongs to
            control_step + i.
        noise_seed: Base of the noise of the stream, None for the policy's default. A policy that
            draws noise seeds it with (noise_seed, sequence), so that a repeated observation gives
            a repeated chunk.
        committed_actions: Rows that the robot will execute whatever the answer is, (n, action_dim)
            float32, or None.
    """

    instruction: str
    tensors: Mapping[str, NDArray[np.generic]]
    images: Mapping[str, NDArray[np.generic]]
    sequence: int
    control_step: int
    noise_seed: int | None = None
    committed_actions: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class PolicyOutput:
    """One chunk.

    Attributes:
        actions: (horizon, action_dim), float32, units of the spec. Checked for shape, finiteness
            and limits before it is sent.
        vision_s, prefill_s, denoise_s: Where the time went, seconds; None is not measured.
    """

    actions: NDArray[np.float32]
    vision_s: float | None = None
    prefill_s: float | None = None
    denoise_s: float | None = None


#: What an observation can come to: a chunk, or what is wrong with it, with the model's answer, or
#: with reaching a model elsewhere.
PolicyOutcome = Union[
    PolicyOutput, InvalidArgumentError, BadModelOutputError, WorkerUnavailableError
]


class Policy(Protocol):
    """An action policy. Called from one thread, one batch at a time."""

    @property
    def spec(self) -> PolicySpec:
        """What it needs and promises. Constant; `name` is replaced by the configured one."""

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutcome]:
        """One outcome per input, in order. May block: it runs outside the server's event loop.

        An error in the place of an output fails that observation alone; one that is raised fails
        the batch.
        """
