"""When a world counts as at rest, on a world of one number."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from robot_sdk.clock import VirtualClock
from sim.closed_loop.resting import (
    REST_CHANGE,
    REST_CHANGE_HOLDING,
    WATCHED_STEPS,
    RestingRobot,
)
from sim.libero.env import StepResult

STEPS = 100


class CreepingWorld:
    """Something moves by the same way in every step."""

    def __init__(self, per_step: float, held: str | None) -> None:
        self.num_steps = 0
        self._per_step = per_step
        self._held = held

    def step(self, _action: object) -> StepResult:
        self.num_steps += 1
        return StepResult(False, self.num_steps)

    def positions(self) -> NDArray[np.float64]:
        return np.array([1.0, self._per_step * self.num_steps])

    def held_object(self) -> str | None:
        return self._held


def computed(per_step: float, held: str | None, *, leaves_out: bool = True) -> int:
    world = CreepingWorld(per_step, held)
    robot = RestingRobot(cast(Any, world), VirtualClock(), leaves_out=leaves_out)
    for _ in range(STEPS):
        robot.hold()
    assert world.num_steps + robot.left_out_steps == STEPS
    return world.num_steps


@pytest.mark.parametrize(
    ("change", "held", "is_computed"),
    [
        (1.5 * REST_CHANGE, None, True),
        (0.8 * REST_CHANGE, None, False),
        (0.8 * REST_CHANGE, "milk_1", True),
        (1.5 * REST_CHANGE_HOLDING, "milk_1", True),
        (0.8 * REST_CHANGE_HOLDING, "milk_1", False),
    ],
)
def test_a_slow_creep_counts_only_while_something_is_held(
    change: float, held: str | None, is_computed: bool
) -> None:
    expected = STEPS if is_computed else WATCHED_STEPS + 1
    assert computed(change / WATCHED_STEPS, held) == expected


def test_everything_is_computed_on_request() -> None:
    assert computed(0.0, None, leaves_out=False) == STEPS
