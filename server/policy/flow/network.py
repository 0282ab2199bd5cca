"""The network of the flow policy in numpy: velocity field and its integration.

A residual MLP predicts the velocity that carries noise (t = 0) to a normalised action chunk
(t = 1) along a straight line (Lipman et al. 2023, flow matching; linear paths). Training uses the
same shapes in torch, see `sim.libero.train.train`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from server.policy.flow.checkpoint import ACTION_DIM, NUM_TIME_FEATURES

Array = NDArray[np.float32]


def time_features(time: float) -> Array:
    """Sines, then cosines, of pi, 2 pi, 3 pi, 4 pi times the flow time; (8,), float32."""
    angles = np.pi * time * np.arange(1, NUM_TIME_FEATURES // 2 + 1)
    return np.concatenate([np.sin(angles), np.cos(angles)]).astype(np.float32)


class FlowNetwork:
    """Maps features and starting noise to chunks of actions.

    Args:
        arrays: Weights and statistics, as `load_checkpoint` returns them.
        num_blocks: Residual blocks.
        num_flow_steps: Euler steps.
    """

    def __init__(self, arrays: Mapping[str, Array], num_blocks: int, num_flow_steps: int) -> None:
        self._arrays = arrays
        self._num_blocks = num_blocks
        self._num_flow_steps = num_flow_steps
        self.horizon = arrays["output.bias"].shape[0] // ACTION_DIM

    def integrate(self, features: Array, noise: Array) -> Array:
        """Actions before clipping, (B, horizon, 7), float32.

        Args:
            features: (B, NUM_FEATURES), float32.
            noise: Start of the flow, (B, horizon, 7), float32; normally distributed or zero.
        """
        arrays = self._arrays
        num_rows = len(features)
        seen = (features - arrays["feature_mean"]) / arrays["feature_std"]
        chunk = noise.reshape(num_rows, -1)
        for step in range(self._num_flow_steps):
            time = np.broadcast_to(
                time_features(step / self._num_flow_steps), (num_rows, NUM_TIME_FEATURES)
            )
            velocity = self._velocity(np.concatenate([seen, chunk, time], axis=1))
            chunk = chunk + velocity / np.float32(self._num_flow_steps)
        actions = chunk.reshape(num_rows, self.horizon, ACTION_DIM)
        return actions * arrays["action_std"] + arrays["action_mean"]

    def _velocity(self, inputs: Array) -> Array:
        arrays = self._arrays
        hidden = _silu(inputs @ arrays["input.weight"].T + arrays["input.bias"])
        for block in range(self._num_blocks):
            inner = hidden @ arrays[f"blocks.{block}.weight"].T + arrays[f"blocks.{block}.bias"]
            hidden = hidden + _silu(inner)
        return hidden @ arrays["output.weight"].T + arrays["output.bias"]


def _silu(values: Array) -> Array:
    # Clipping keeps exp from overflowing; beyond it the function is flat or linear anyway.
    decay: Array = np.exp(-np.clip(values, -60.0, 60.0))
    return values / (np.float32(1.0) + decay)
