"""A policy for the toy robot, as the server loads it: `factory = "toy_policy:ToyReach"`.

It reaches for the target, closes the gripper and lifts. A real policy would be a network; what the
server asks of it is the same: a spec, and one chunk of actions for every observation of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_sdk.spec import ActionDimension, ObservationKey, PolicySpec
from server.policy.interface import PolicyInput, PolicyOutput

STEP_M = 0.02
_HORIZON = 10
_LIFT_M = 0.15


class ToyReach:
    """Straight to the target, close, straight up."""

    spec = PolicySpec(
        name="toy-reach",
        version="1",
        action_dimensions=(
            *(ActionDimension(axis, "2 cm", "world", "delta", -1.0, 1.0) for axis in "xyz"),
            ActionDimension("gripper", "1", "gripper", "absolute", -1.0, 1.0),
        ),
        control_hz=20.0,
        horizon=_HORIZON,
        executed_steps=5,
        observation_keys=(
            ObservationKey("observation/state", "float32", (4,), description="x, y, z, closed"),
            ObservationKey("observation/target", "float32", (3,), unit="m"),
        ),
        stand_in=True,
        note="a rule that stands for a learned policy",
    )

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        """One chunk, (10, 4), per observation."""
        return [PolicyOutput(self._chunk(item)) for item in batch]

    def _chunk(self, item: PolicyInput) -> np.ndarray:
        state = np.asarray(item.tensors["observation/state"], dtype=np.float64)
        target = np.asarray(item.tensors["observation/target"], dtype=np.float64)
        position, is_closed = state[:3].copy(), state[3] > 0.5
        rows = np.zeros((_HORIZON, 4), dtype=np.float32)
        for row in rows:
            goal = target + [0.0, 0.0, _LIFT_M] if is_closed else target
            row[:3] = np.clip((goal - position) / STEP_M, -1.0, 1.0)
            position += row[:3] * STEP_M
            is_closed = is_closed or bool(np.linalg.norm(target - position) < 0.005)
            row[3] = 1.0 if is_closed else -1.0
        return rows
