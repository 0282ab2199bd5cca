"""Rotations: round trips and LIBERO's axis-angle convention."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim.libero.rotation import (
    GRIPPER_DOWN,
    axis_angle_from_quat,
    gripper_rotation,
    matrix_from_quat,
    quat_from_matrix,
    rotation_vector,
    yaw_matrix,
)

_quat = (
    st.tuples(*[st.floats(-1.0, 1.0)] * 4)
    .map(np.array)
    .filter(lambda quat: np.linalg.norm(quat) > 0.1)
)


@given(_quat)
def test_quaternion_and_matrix_are_inverses(quat: np.ndarray) -> None:
    matrix = matrix_from_quat(quat)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(matrix_from_quat(quat_from_matrix(matrix)), matrix, atol=1e-7)


@given(st.floats(-3.1, 3.1))
def test_rotation_vector_of_a_yaw_is_its_angle_about_z(yaw: float) -> None:
    np.testing.assert_allclose(rotation_vector(yaw_matrix(yaw)), [0.0, 0.0, yaw], atol=1e-7)


def test_the_gripper_points_down_and_opens_along_y() -> None:
    np.testing.assert_allclose(gripper_rotation(0.0), GRIPPER_DOWN, atol=1e-12)
    np.testing.assert_allclose(GRIPPER_DOWN @ [0, 0, 1], [0, 0, -1])
    np.testing.assert_allclose(abs(GRIPPER_DOWN @ [0, 1, 0]), [0, 1, 0])


def test_axis_angle_stays_continuous_across_a_half_turn() -> None:
    just_below = np.array([np.sin(1.57), 0.0, 0.0, np.cos(1.57)])
    just_above = np.array([np.sin(1.5716), 0.0, 0.0, np.cos(1.5716)])
    below, above = axis_angle_from_quat(just_below), axis_angle_from_quat(just_above)
    np.testing.assert_allclose(below, [3.14, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(above, [3.1432, 0.0, 0.0], atol=1e-6)
