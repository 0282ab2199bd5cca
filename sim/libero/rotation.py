"""Conversions between rotations. Quaternions are (x, y, z, w); nothing here depends on scipy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

#: The gripper points straight down and its fingers open along the world's y axis.
GRIPPER_DOWN: Array = np.diag([1.0, -1.0, -1.0])


def matrix_from_quat(quat_xyzw: ArrayLike) -> Array:
    """Rotation matrix (3, 3) of a quaternion (4,), xyzw, normalised here."""
    quat = np.asarray(quat_xyzw, dtype=np.float64)
    x, y, z, w = quat / np.linalg.norm(quat)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quat_from_matrix(matrix: ArrayLike) -> Array:
    """Quaternion (4,), xyzw, w >= 0, of a rotation matrix (3, 3)."""
    m = np.asarray(matrix, dtype=np.float64)
    # The symmetric 4x4 form whose largest eigenvector is the quaternion (Bar-Itzhack 2000): no
    # case distinction, well conditioned at every angle.
    k = np.array(
        [
            [m[0, 0] - m[1, 1] - m[2, 2], 0, 0, 0],
            [m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], 0, 0],
            [m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1], 0],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], np.trace(m)],
        ]
    )
    quat = np.linalg.eigh(k)[1][:, -1]
    return quat if quat[3] >= 0 else -quat


def rotation_vector(matrix: ArrayLike) -> Array:
    """Axis times angle (3,), radians in [0, pi], of a rotation matrix (3, 3)."""
    quat = quat_from_matrix(matrix)
    sine = float(np.linalg.norm(quat[:3]))
    if sine < 1e-12:
        return np.zeros(3)
    return quat[:3] / sine * (2.0 * np.arctan2(sine, quat[3]))


def axis_angle_from_quat(quat_xyzw: ArrayLike) -> Array:
    """Axis times angle (3,) in LIBERO's convention: angle = 2 acos(w) in [0, 2 pi], sign kept.

    The quaternion's sign is not normalised, as in the data that LIBERO policies were trained on,
    so that a pose near a half turn does not jump between frames.
    """
    quat = np.asarray(quat_xyzw, dtype=np.float64)
    w = float(np.clip(quat[3], -1.0, 1.0))
    sine = np.sqrt(1.0 - w * w)
    if sine < 1e-12:
        return np.zeros(3)
    return quat[:3] / sine * (2.0 * np.arccos(w))


def yaw_matrix(yaw_rad: float) -> Array:
    """Rotation (3, 3) by `yaw_rad` about the world's z axis."""
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def gripper_rotation(yaw_rad: float) -> Array:
    """Gripper pointing down, turned by `yaw_rad`; at 0 the fingers open along the world's y."""
    return yaw_matrix(yaw_rad) @ GRIPPER_DOWN
