from __future__ import annotations

import pytest
import torch
from torch import Tensor

from server.policy.pi05.sampler import integrate


@pytest.mark.parametrize("num_steps", [1, 5, 10])
def test_a_straight_flow_arrives_exactly(num_steps: int) -> None:
    noise, actions = torch.tensor([[3.0, -1.0]]), torch.tensor([[0.5, 0.25]])

    found = integrate(lambda _state, _step: noise - actions, noise, num_steps)

    assert torch.allclose(found, actions, atol=1e-6)


@pytest.mark.parametrize("num_steps", [1, 5, 10])
def test_exponential_decay_follows_the_formula_of_eulers_method(num_steps: int) -> None:
    noise = torch.tensor([2.0], dtype=torch.float64)

    found = integrate(lambda state, _step: state, noise, num_steps)

    assert found.item() == pytest.approx(2.0 * (1 - 1 / num_steps) ** num_steps)


def test_steps_are_counted_from_the_noise_and_the_noise_is_left_alone() -> None:
    steps: list[int] = []
    noise = torch.ones(1)

    def velocity(state: Tensor, step: int) -> Tensor:
        steps.append(step)
        return state

    integrate(velocity, noise, 3)

    assert steps == [0, 1, 2]
    assert noise.item() == 1.0
