"""A policy that computes nothing and takes as long as a measured one: for tests of the tier.

    [policies.table]
    kind = "factory"
    factory = "server.policy.table_policy:TablePolicy"
    options = {table_file = "latency.json"}

With no file it takes the time of the study's published table. It is a stand-in and says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.spec import ActionDimension, ObservationKey, PolicySpec
from server.core.batching import STUDY_TABLE, LatencyTable
from server.policy.interface import PolicyInput, PolicyOutput

STATE_KEY = "observation/state"
STATE_WIDTH = 8
IMAGE_KEYS = ("images/agentview", "images/wrist")


class TablePolicy:
    """Sleeps the table's latency for the size of the batch; row i is the number of its step.

    Numbered rows let a robot see that each is executed at its own step.

    Args:
        table_file: Latency table, as `python -m server profile-policy` writes it. Empty: the
            study's.
        horizon, executed_steps, action_dim, control_hz: What the spec says.
        image_px: Side of the two square pictures that it wants. 0: none.
    """

    def __init__(
        self,
        table_file: str = "",
        *,
        horizon: int = 10,
        executed_steps: int = 5,
        action_dim: int = 7,
        control_hz: float = 20.0,
        image_px: int = 0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._table = STUDY_TABLE
        if table_file:
            self._table = LatencyTable.from_json(json.loads(Path(table_file).read_text()))
        self._clock = clock
        images = tuple(
            ObservationKey(key, "uint8", (image_px, image_px), is_image=True) for key in IMAGE_KEYS
        )
        self.spec = PolicySpec(
            name="latency-table",
            version="1",
            action_dimensions=tuple(
                ActionDimension(f"a{i}", "step", "none", "absolute") for i in range(action_dim)
            ),
            control_hz=control_hz,
            horizon=horizon,
            executed_steps=executed_steps,
            observation_keys=(
                ObservationKey(STATE_KEY, "float32", (STATE_WIDTH,)),
                *(images if image_px else ()),
            ),
            stand_in=True,
            note=f"sleeps the latencies of {self._table.policy} ({self._table.measured_on})",
        )

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        """Chunks of float32 (horizon, action_dim) whose row i holds control_step + i."""
        started_s = self._clock.now_s()
        size = min(len(batch), self._table.largest_batch)
        self._clock.sleep_until(started_s + self._table.latency_s(size))
        return [PolicyOutput(self._rows(item.control_step)) for item in batch]

    def _rows(self, control_step: int) -> NDArray[np.float32]:
        steps = np.arange(control_step, control_step + self.spec.horizon, dtype=np.float32)
        return np.repeat(steps[:, np.newaxis], self.spec.action_dim, axis=1)
