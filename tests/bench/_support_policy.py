"""The benchmark's policy for the product's server: answers after a set time.

Named in the configuration as `factory = "_support_policy:make_policy"`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from _support_load import ACTION_DIM, HORIZON_STEPS

from robot_sdk.spec import ActionDimension, ObservationKey, PolicySpec
from server.policy.interface import PolicyInput, PolicyOutput

BASE_RGB = "images/base"
WRIST_RGB = "images/wrist"
STATE = "observation/state"


class DelayPolicy:
    """Sleeps `delay_s` for a call and `per_item_s` for each observation in it."""

    def __init__(self, delay_s: float, per_item_s: float, pictures: bool) -> None:
        self._delay_s = delay_s
        self._per_item_s = per_item_s
        self.spec = PolicySpec(
            name="bench",
            version="1",
            action_dimensions=tuple(
                ActionDimension(f"a{index}", "normalized", "base", "delta")
                for index in range(ACTION_DIM)
            ),
            control_hz=20.0,
            horizon=HORIZON_STEPS,
            executed_steps=HORIZON_STEPS // 2,
            observation_keys=(
                ObservationKey(BASE_RGB, "uint8", (224, 224), required=pictures, is_image=True),
                ObservationKey(WRIST_RGB, "uint8", (224, 224), required=pictures, is_image=True),
                ObservationKey(STATE, "float32", (8,)),
            ),
            stand_in=True,
            note="answers with the first number of the state; for measuring transports",
        )

    def infer(self, batch: Sequence[PolicyInput]) -> list[PolicyOutput]:
        duration_s = self._delay_s + self._per_item_s * len(batch)
        if duration_s > 0:
            time.sleep(duration_s)
        outputs = []
        for item in batch:
            actions = np.zeros((HORIZON_STEPS, ACTION_DIM), dtype=np.float32)
            actions[:, 0] = item.tensors[STATE][0]
            outputs.append(PolicyOutput(actions))
        return outputs


def make_policy(
    delay_s: float = 0.0, per_item_s: float = 0.0, pictures: bool = True
) -> DelayPolicy:
    """The factory."""
    return DelayPolicy(delay_s, per_item_s, pictures)
