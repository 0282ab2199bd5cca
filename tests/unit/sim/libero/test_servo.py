"""The servo law: bounded, directed, scaled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.libero.rotation import GRIPPER_DOWN, gripper_rotation
from sim.libero.servo import (
    GRIPPER_CLOSE,
    POSITION_SCALE_M,
    ROTATION_SCALE_RAD,
    ServoLimits,
    pose_error,
    servo_action,
    travel_height,
)

_coordinate = st.floats(-1.0, 1.0)
_position = st.tuples(_coordinate, _coordinate, _coordinate).map(np.array)
_yaw = st.floats(-3.0, 3.0)


@given(_position, _position, _yaw, _yaw)
def test_every_entry_of_an_action_is_within_the_controller_range(
    start: np.ndarray, target: np.ndarray, yaw: float, target_yaw: float
) -> None:
    action = servo_action(
        start, gripper_rotation(yaw), target, gripper_rotation(target_yaw), GRIPPER_CLOSE
    )
    assert action.shape == (7,)
    assert action.dtype == np.float32
    assert np.all(np.abs(action) <= 1.0)


@given(_position, _position)
def test_a_limited_translation_keeps_its_direction(start: np.ndarray, target: np.ndarray) -> None:
    limits = ServoLimits(gain=1.0, max_position_action=0.4)
    moved = servo_action(start, GRIPPER_DOWN, target, GRIPPER_DOWN, 1.0, limits)[:3]
    wanted = target - start
    assert np.max(np.abs(moved)) <= 0.4 + 1e-6
    np.testing.assert_allclose(np.cross(moved, wanted), 0.0, atol=1e-6)
    assert moved @ wanted >= 0.0


def test_an_action_of_one_means_five_centimetres_and_half_a_radian() -> None:
    limits = ServoLimits(gain=1.0, max_rotation_action=1.0)
    action = servo_action(
        np.zeros(3),
        gripper_rotation(0.0),
        np.array([POSITION_SCALE_M, 0.0, -POSITION_SCALE_M / 2]),
        gripper_rotation(ROTATION_SCALE_RAD / 2),
        GRIPPER_CLOSE,
        limits,
    )
    np.testing.assert_allclose(action, [1.0, 0.0, -0.5, 0.0, 0.0, 0.5, 1.0], atol=1e-6)


def test_pose_error_is_metres_and_radians() -> None:
    error = pose_error(
        np.zeros(3), gripper_rotation(0.0), np.array([0.3, 0.4, 0.0]), gripper_rotation(-0.7)
    )
    assert error.position_m == pytest.approx(0.5)
    assert error.rotation_rad == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("obstacle", "expected"),
    [
        ((0.5, 0.05, 0.30), 0.30 + 0.10 + 0.02),  # on the way
        ((0.5, 0.25, 0.30), 0.15),  # beside the way
        ((-0.5, 0.0, 0.30), 0.15),  # behind the start
        ((0.5, 0.0, 0.01), 0.15),  # lower than the least height
    ],
)
def test_travel_height_clears_only_what_is_on_the_way(
    obstacle: tuple[float, float, float], expected: float
) -> None:
    height = travel_height(np.zeros(2), np.array([1.0, 0.0]), np.array([obstacle]), 0.10, 0.15)
    assert height == pytest.approx(expected)


def test_travel_height_without_obstacles_is_the_least_height() -> None:
    assert travel_height(np.zeros(2), np.ones(2), np.zeros((0, 3)), 0.1, 0.2) == 0.2
