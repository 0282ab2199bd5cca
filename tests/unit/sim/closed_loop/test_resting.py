"""Holds that are not computed while nothing moves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from robot_sdk.clock import VirtualClock
from sim.closed_loop.resting import WATCHED_STEPS, RestingRobot
from sim.libero.env import LiberoEnv

pytestmark = pytest.mark.sim

MOVE = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -1.0], dtype=np.float32)


@pytest.fixture(scope="module")
def env() -> Iterator[LiberoEnv]:
    with LiberoEnv("libero_object_swap", 8, 0, gl="off") as env:
        yield env


def held(env: LiberoEnv, steps: int, *, leaves_out: bool = True) -> RestingRobot:
    env.reset()
    robot = RestingRobot(env, VirtualClock(), leaves_out=leaves_out)
    robot.act(MOVE)
    for _ in range(steps):
        robot.hold()
    return robot


def test_a_world_at_rest_is_left_out_and_hardly_differs_from_one_that_is_computed(
    env: LiberoEnv,
) -> None:
    resting = held(env, 100)
    positions, computed = env.positions(), env.num_steps
    held(env, 100, leaves_out=False)
    assert env.num_steps == 101
    assert resting.left_out_steps == 101 - computed
    assert 30 < resting.left_out_steps <= 100 - WATCHED_STEPS
    assert float(np.abs(positions - env.positions()).max()) < 2e-3


def test_a_world_that_moves_is_computed(env: LiberoEnv) -> None:
    robot = held(env, WATCHED_STEPS)
    assert robot.left_out_steps == 0
    assert env.num_steps == WATCHED_STEPS + 1


def test_an_action_makes_the_world_move_again(env: LiberoEnv) -> None:
    robot = held(env, 60)
    assert robot.is_at_rest
    before = env.num_steps
    robot.act(MOVE)
    robot.hold()
    assert not robot.is_at_rest
    assert env.num_steps == before + 2
