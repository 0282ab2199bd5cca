"""The small flow policy: named arrays in, chunks of actions out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.observation import PRIVILEGED_PREFIX
from robot_sdk.spec import ActionDimension, ActionGroup, ObservationKey, PolicySpec
from server.policy.flow.checkpoint import (
    ACTION_DIM,
    DEFAULT_CHECKPOINT,
    CheckpointMetadata,
    load_checkpoint,
)
from server.policy.flow.features import INPUT_WIDTHS, compute_features
from server.policy.flow.network import FlowNetwork

#: Rows executed before the next chunk takes over.
EXECUTED_STEPS = 5
CONTROL_HZ = 20.0

_NAME = "flow"
_VERSION = "1"
_UNITS: Mapping[str, str] = {
    "observation/state": "m, rad, m",
    "observation/gripper_qvel": "m/s",
    "privileged/target_quat": "xyzw",
}


class FlowPolicy:
    """Picks an object up and puts it down, from its pose. Stands in for a vision policy.

    Inputs are those of `server.policy.flow.features`; actions are LIBERO's seven numbers. The
    same inputs and seeds give bitwise the same actions for a batch of one; in larger batches the
    matrix library may add up in another order.

    Args:
        arrays: Weights, as `load_checkpoint` returns them.
        metadata: How they were made.
    """

    def __init__(
        self, arrays: Mapping[str, NDArray[np.float32]], metadata: CheckpointMetadata
    ) -> None:
        self.metadata = metadata
        self._network = FlowNetwork(arrays, metadata.num_blocks, metadata.num_flow_steps)

    @classmethod
    def load(cls, path: Path = DEFAULT_CHECKPOINT) -> FlowPolicy:
        """Read a checkpoint; InvalidArgumentError if anything about it is wrong."""
        return cls(*load_checkpoint(path))

    @property
    def horizon(self) -> int:
        """Action rows per chunk."""
        return self.metadata.horizon

    def infer(
        self,
        inputs: Mapping[str, NDArray[np.generic]],
        noise_seeds: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """Chunks of actions, (B, horizon, 7), float32, every entry in [-1, 1].

        Args:
            inputs: Named arrays, (width,) or (B, width); other names are ignored.
            noise_seeds: One seed per row. 0, the default, starts the flow at zero noise, the
                middle of what the policy would do; any other seed draws normal noise from it.

        Raises:
            ObservationMismatchError: An input is missing or wrong, by name.
            InvalidArgumentError: Not one non-negative seed per row.
        """
        features = compute_features(inputs)
        seeds = [0] * len(features) if noise_seeds is None else list(noise_seeds)
        if len(seeds) != len(features) or any(seed < 0 for seed in seeds):
            raise InvalidArgumentError(
                "one seed per row is needed",
                field="noise_seeds",
                value=seeds,
                allowed=[f"{len(features)} integers from 0 up"],
            )
        noise = np.stack([self._noise(seed) for seed in seeds])
        actions = self._network.integrate(features, noise)
        return np.clip(actions, -1.0, 1.0).astype(np.float32)

    def spec(self) -> PolicySpec:
        """What a robot must provide, and what it gets."""
        return flow_policy_spec(self.horizon)

    def _noise(self, seed: int) -> NDArray[np.float32]:
        shape = (self.horizon, ACTION_DIM)
        if seed == 0:
            return np.zeros(shape, dtype=np.float32)
        return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def flow_policy_spec(horizon: int) -> PolicySpec:
    """The specification of the flow policy, without loading it."""
    translation = [ActionDimension(f"d{axis}", "0.05 m", "world", "delta", -1, 1) for axis in "xyz"]
    rotation = [
        ActionDimension(f"d{name}", "0.5 rad", "world", "delta", -1, 1)
        for name in ("roll", "pitch", "yaw")
    ]
    gripper = ActionDimension("gripper", "+1 closes, -1 opens", "gripper", "absolute", -1, 1)
    return PolicySpec(
        name=_NAME,
        version=_VERSION,
        action_dimensions=(*translation, *rotation, gripper),
        action_groups=(ActionGroup("arm", 0, 6), ActionGroup("gripper", 6, 1)),
        control_hz=CONTROL_HZ,
        horizon=horizon,
        executed_steps=EXECUTED_STEPS,
        observation_keys=tuple(
            ObservationKey(
                name=name,
                dtype="float32",
                shape=(width,),
                privileged=name.startswith(PRIVILEGED_PREFIX),
                unit=_UNITS.get(name, "m"),
            )
            for name, width in INPUT_WIDTHS.items()
        ),
        embodiments=("libero-panda",),
        stand_in=True,
        note="Trained on scripted demonstrations; sees the poses of objects, not pictures. "
        "Stands in for pi0.5 where there is no GPU.",
    )
