"""From noise to actions: Euler's method on the velocity of a flow (arXiv 2210.02747)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def integrate(velocity: Callable[[Tensor, int], Tensor], noise: Tensor, num_steps: int) -> Tensor:
    """Follow the velocity from time 1 to time 0 in equal steps.

    Args:
        velocity: Takes the state and the number of the step, 0 first; returns d state / d time.
            Step i is at time 1 - i / num_steps, see `flow_time.euler_times`.
        noise: The state at time 1. It is not changed.
        num_steps: At least 1.

    Returns:
        The state at time 0.
    """
    state = noise
    for step in range(num_steps):
        state = state - velocity(state, step) / num_steps
    return state
