from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from sim.libero.env import ArmState
from sim.libero.motion import (
    ARRIVED_M,
    GripperMotion,
    Motion,
    MotionResult,
    MoveMotion,
    ShakeMotion,
    gripper_yaw,
    rotate_motion,
)
from sim.libero.rotation import gripper_rotation, quat_from_matrix, rotation_vector, yaw_matrix
from sim.libero.servo import GRIPPER_CLOSE, GRIPPER_OPEN, POSITION_SCALE_M, ROTATION_SCALE_RAD

pytestmark = pytest.mark.sim

START = ArmState(
    position=np.array([0.0, 0.0, 0.3]),
    quat=quat_from_matrix(gripper_rotation(0.0)),
    gripper_qpos=np.array([0.04, -0.04]),
    gripper_qvel=np.zeros(2),
    joint_pos=np.zeros(7),
)


def apply(arm: ArmState, action: np.ndarray, is_blocked: bool = False) -> ArmState:
    """An ideal arm: it does in one step what the action asks for."""
    turn = action[3:6].astype(float) * ROTATION_SCALE_RAD
    angle = float(np.linalg.norm(turn))
    assert angle < 1e-9 or abs(turn[2]) > 0.99 * angle, "these tests only turn about z"
    moved = 0.0 if is_blocked else action[:3].astype(float) * POSITION_SCALE_M
    return dataclasses.replace(
        arm,
        position=arm.position + moved,
        quat=quat_from_matrix(yaw_matrix(float(turn[2])) @ arm.rotation),
    )


def run(
    motion: Motion, arm: ArmState = START, is_blocked: bool = False
) -> tuple[MotionResult, ArmState, list[np.ndarray]]:
    actions: list[np.ndarray] = []
    for _ in range(1000):
        step = motion.step(arm)
        if isinstance(step, MotionResult):
            return step, arm, actions
        actions.append(step)
        arm = apply(arm, step, is_blocked)
    raise AssertionError("the motion never ended")


def test_a_move_arrives_and_keeps_yaw_and_fingers() -> None:
    start = dataclasses.replace(START, quat=quat_from_matrix(gripper_rotation(0.7)))

    result, arm, actions = run(MoveMotion(np.array([0.2, -0.1, 0.2]), None, GRIPPER_CLOSE), start)

    assert (result.reached, result.reason) == (True, "reached")
    assert np.linalg.norm(arm.position - [0.2, -0.1, 0.2]) < ARRIVED_M
    assert gripper_yaw(arm) == pytest.approx(0.7, abs=1e-3)
    assert {action[6] for action in actions} == {GRIPPER_CLOSE}


def test_a_move_straightens_a_tilted_hand() -> None:
    tilt = np.array([[1, 0, 0], [0, np.cos(0.2), -np.sin(0.2)], [0, np.sin(0.2), np.cos(0.2)]])
    start = dataclasses.replace(START, quat=quat_from_matrix(tilt @ gripper_rotation(0.0)))

    action = MoveMotion(np.array([0.2, 0.0, 0.3]), None, GRIPPER_OPEN).step(start)

    assert isinstance(action, np.ndarray)
    left = rotation_vector(gripper_rotation(0.0) @ start.rotation.T)
    assert action[3] * left[0] > 0.0


def test_speed_bounds_every_axis() -> None:
    _, _, actions = run(MoveMotion(np.array([0.4, 0.0, 0.3]), None, GRIPPER_OPEN, speed_m_s=0.25))

    assert max(np.abs(action[:3]).max() for action in actions) == pytest.approx(0.25)


def test_a_blocked_move_ends_and_says_how_far_it_is() -> None:
    result, _, actions = run(
        MoveMotion(np.array([0.2, 0.0, 0.3]), None, GRIPPER_OPEN), is_blocked=True
    )

    assert (result.reached, result.reason) == (False, "blocked")
    assert result.error is not None
    assert result.error.position_m == pytest.approx(0.2)
    assert len(actions) < 30


def test_a_move_never_takes_more_steps_than_it_may() -> None:
    result, _, actions = run(MoveMotion(np.array([0.4, 0.0, 0.3]), None, GRIPPER_OPEN, max_steps=3))

    assert (result.reached, result.reason, len(actions)) == (False, "step_limit", 3)


@pytest.mark.parametrize("yaw", [-2.5, -0.3, 0.0, 1.2, 3.0])
def test_rotate_turns_in_place_to_the_yaw(yaw: float) -> None:
    result, arm, _ = run(rotate_motion(START, yaw, GRIPPER_OPEN))

    assert result.reached
    assert gripper_yaw(arm) == pytest.approx(yaw, abs=0.05)
    assert np.linalg.norm(arm.position - START.position) < ARRIVED_M


def test_f8_minus_one_opens_until_the_fingers_are_apart_and_the_hand_stays() -> None:
    motion = GripperMotion(GRIPPER_OPEN)
    arm = dataclasses.replace(START, gripper_qpos=np.array([0.02, -0.02]))
    actions = [motion.step(arm) for _ in range(8)]
    apart = dataclasses.replace(arm, gripper_qpos=np.array([0.039, -0.039]))

    result = motion.step(apart)

    assert all(np.allclose(action, [0, 0, 0, 0, 0, 0, -1]) for action in actions)
    assert result == MotionResult(True, "reached", 8)


def test_fingers_that_do_not_open_are_reported() -> None:
    stuck = dataclasses.replace(START, gripper_qpos=np.array([0.02, -0.02]))

    result, _, _ = run(GripperMotion(GRIPPER_OPEN), stuck)

    assert (result.reached, result.reason) == (False, "step_limit")


def test_f8_plus_one_closes_for_ten_steps_at_least() -> None:
    result, _, actions = run(GripperMotion(GRIPPER_CLOSE))

    assert (result.reached, result.steps) == (True, 10)
    assert all(np.allclose(action, [0, 0, 0, 0, 0, 0, 1]) for action in actions)


def test_the_gripper_does_not_wait_for_ever_for_trembling_fingers() -> None:
    trembling = dataclasses.replace(START, gripper_qvel=np.array([0.1, -0.1]))

    result, _, actions = run(GripperMotion(GRIPPER_CLOSE), trembling)

    assert (result.reached, result.reason, len(actions)) == (True, "step_limit", 25)


def test_shaking_tilts_the_open_hand_to_and_fro_until_nothing_clings() -> None:
    clings = iter([True] * 12 + [False])
    motion = ShakeMotion(lambda: next(clings))

    steps = [motion.step(START) for _ in range(13)]

    tilts = [float(step[4]) for step in steps[:-1] if isinstance(step, np.ndarray)]
    assert tilts == [1.0] * 5 + [-1.0] * 5 + [1.0] * 2
    assert steps[-1] == MotionResult(True, "reached", 12)


def test_shaking_gives_up_and_says_so() -> None:
    result, num_steps = None, 0
    motion = ShakeMotion(lambda: True)
    while not isinstance(result, MotionResult):
        result = motion.step(START)
        num_steps += 1

    assert (result.reached, result.reason, result.steps) == (False, "step_limit", num_steps - 1)
