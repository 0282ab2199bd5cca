"""The flow time: when the velocity is asked for, and as numbers the network can read."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def euler_times(num_steps: int) -> list[float]:
    """Times of N equal steps from noise at 1 to actions at 0: 1, 1 - 1/N, ..., 1/N."""
    step = -1.0 / num_steps
    return [1.0 + index * step for index in range(num_steps)]


def embed_times(times: Tensor, width: int, min_period: float, max_period: float) -> Tensor:
    """Sines, then cosines, with periods spread evenly in the logarithm.

    Args:
        times: (N,), float32.
        width: Even.
        min_period: Period of the first sine.
        max_period: Period of the last.

    Returns:
        (N, width), float32, computed in float64: the shortest period is 4e-3.
    """
    # Always on the CPU: some devices have no float64, and it happens once per number of steps.
    exact = times.double().cpu()
    fraction = torch.linspace(0.0, 1.0, width // 2, dtype=torch.float64)
    periods = min_period * (max_period / min_period) ** fraction
    angles = exact[:, None] * (2.0 * math.pi / periods)
    return torch.cat((angles.sin(), angles.cos()), dim=1).float().to(times.device)
