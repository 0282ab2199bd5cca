"""The small flow policy behind this server's Policy interface."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robot_sdk.spec import PolicySpec
from server.policy.flow.checkpoint import DEFAULT_CHECKPOINT
from server.policy.flow.policy import FlowPolicy
from server.policy.interface import PolicyInput, PolicyOutput


class FlowAdapter:
    """Stacks observations into the arrays that the network takes.

    Args:
        checkpoint: File with the weights; empty for the one that comes with the project.
    """

    #: Of the network's numbers, as `profile-policy` tells it.
    dtype = "float32"

    def __init__(self, checkpoint: str = "") -> None:
        self._policy = FlowPolicy.load(Path(checkpoint) if checkpoint else DEFAULT_CHECKPOINT)

    @property
    def spec(self) -> PolicySpec:
        return self._policy.spec()

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        names = batch[0].tensors.keys()
        inputs = {name: np.stack([item.tensors[name] for item in batch]) for name in names}
        chunks = self._policy.infer(inputs, [_noise_seed(item) for item in batch])
        return [PolicyOutput(chunk) for chunk in chunks]


def _noise_seed(item: PolicyInput) -> int:
    """One seed per observation. 0 is the policy's own default, without noise."""
    if item.noise_seed is None:
        return 0
    state = np.random.SeedSequence((item.noise_seed, item.sequence)).generate_state(2, np.uint32)
    return int(state[0]) << 32 | int(state[1]) or 1
