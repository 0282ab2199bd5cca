"""From a box to the place, angle and width at which a top-down two-finger gripper takes it.

Pure numpy over a batch. Used by the features of the flow policy and by the scripted expert that
demonstrates for it, so that what is shown and what is seen agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: How far below an object's top the fingers close, metres, unless the object is flatter.
FINGER_DEPTH_M = 0.035
#: The end effector point never goes nearer to an object's bottom than this, metres: the finger
#: tips reach 19 mm below it, so that a lower point presses them on the table and is never reached.
FLOOR_GAP_M = 0.022
#: Extra width, metres per radian, at which a turned grasp loses against a straight one.
_TURN_PENALTY_M_PER_RAD = 0.006
#: Yaw is taken in [low, low + pi). A two-finger grasp repeats after half a turn; the seam lies at
#: an angle where objects seldom lie, not at +-90 degrees where many do.
_LOWEST_YAW_RAD = float(np.deg2rad(-105.0))


@dataclass(frozen=True)
class GraspFrame:
    """Top-down grasps of B boxes, world frame.

    Attributes:
        position: Where the end effector closes, (B, 3), metres.
        yaw_rad: Turn of the gripper about the world's z axis, (B,); at 0 the fingers open along y.
        width_m: Size of the box between the fingers, (B,).
        top_m: Height of the box's top, (B,).
        bottom_m: Height of the box's bottom, (B,).
    """

    position: Array
    yaw_rad: Array
    width_m: Array
    top_m: Array
    bottom_m: Array


def matrices_from_quats(quats_xyzw: Array) -> Array:
    """Rotation matrices (B, 3, 3) of quaternions (B, 4), xyzw, normalised here."""
    x, y, z, w = (quats_xyzw / np.linalg.norm(quats_xyzw, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def grasp_frame(center: Array, quat: Array, size: Array) -> GraspFrame:
    """The grasp of each box.

    Args:
        center: (B, 3), metres, world frame.
        quat: (B, 4), xyzw.
        size: Full edge lengths, (B, 3), metres.
    """
    axes = matrices_from_quats(quat)  # column i is the box's axis i in the world
    half_height = np.sum(np.abs(axes[:, 2, :]) * size, axis=1) / 2.0
    top, bottom = center[:, 2] + half_height, center[:, 2] - half_height

    upright = np.argmax(np.abs(axes[:, 2, :]), axis=1)
    angle = np.arctan2(axes[:, 1, :], axes[:, 0, :])
    yaw = (angle - np.pi / 2.0 - _LOWEST_YAW_RAD) % np.pi + _LOWEST_YAW_RAD
    cost = size + _TURN_PENALTY_M_PER_RAD * np.abs(yaw)
    rows = np.arange(len(center))
    cost[rows, upright] = np.inf
    chosen = np.argmin(cost, axis=1)

    height = np.maximum(top - FINGER_DEPTH_M, bottom + FLOOR_GAP_M)
    return GraspFrame(
        position=np.c_[center[:, :2], height],
        yaw_rad=yaw[rows, chosen],
        width_m=size[rows, chosen],
        top_m=top,
        bottom_m=bottom,
    )
