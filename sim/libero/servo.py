"""Pose error to action: the proportional law that scripted motion uses.

An action is `[dx, dy, dz, droll, dpitch, dyaw, gripper]`, each in [-1, 1]. robosuite's OSC_POSE
controller scales +-1 to a displacement of 0.05 m and a rotation of 0.5 rad (axis-angle in the
world frame) for one control step of 1/20 s; gripper -1 opens, +1 closes. Everything here is a
pure function of values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.libero.rotation import rotation_vector

Array = NDArray[np.float64]

#: Metres that a position action of 1 asks for (robosuite's OSC_POSE `output_max`).
POSITION_SCALE_M = 0.05
#: Radians that a rotation action of 1 asks for (robosuite's OSC_POSE `output_max`).
ROTATION_SCALE_RAD = 0.5

GRIPPER_OPEN = -1.0
GRIPPER_CLOSE = 1.0

#: Free space kept under a carried object, metres.
TRAVEL_CLEARANCE_M = 0.02
#: Half width of the corridor in which an object counts as being in the way, metres.
CORRIDOR_HALF_WIDTH_M = 0.10


@dataclass(frozen=True)
class ServoLimits:
    """How hard the servo pulls.

    Attributes:
        gain: Multiple of the position error asked for in one step. The arm covers only about an
            eighth of a command within its step, so 2 still settles without overshoot and needs
            half the time of 1 for the last centimetres.
        max_position_action: Largest absolute position action; the direction is kept.
        max_rotation_action: Largest absolute rotation action, clipped per axis.
    """

    gain: float = 2.0
    max_position_action: float = 1.0
    max_rotation_action: float = 0.5


@dataclass(frozen=True)
class PoseError:
    """Distance left: metres and radians, both non-negative."""

    position_m: float
    rotation_rad: float


def pose_error(
    position: Array, rotation: Array, target_position: Array, target_rotation: Array
) -> PoseError:
    """Distance between two poses. Positions (3,) in metres, rotations (3, 3), one frame."""
    return PoseError(
        position_m=float(np.linalg.norm(np.asarray(target_position) - position)),
        rotation_rad=float(np.linalg.norm(rotation_vector(target_rotation @ rotation.T))),
    )


def servo_action(
    position: Array,
    rotation: Array,
    target_position: Array,
    target_rotation: Array,
    gripper: float,
    limits: ServoLimits = ServoLimits(),  # frozen, so safe to share
) -> NDArray[np.float32]:
    """One action towards a target pose. Shape (7,), float32, every entry in [-1, 1].

    Args:
        position: End effector position, (3,), metres, world frame.
        rotation: End effector rotation, (3, 3), world frame.
        target_position: Wanted position, (3,), metres, world frame.
        target_rotation: Wanted rotation, (3, 3), world frame.
        gripper: -1 opens, +1 closes.
        limits: Gain and limits.
    """
    translation = limits.gain * (np.asarray(target_position) - position) / POSITION_SCALE_M
    largest = float(np.max(np.abs(translation)))
    if largest > limits.max_position_action:
        translation = translation * (limits.max_position_action / largest)
    turn = rotation_vector(target_rotation @ rotation.T) / ROTATION_SCALE_RAD
    turn = np.clip(turn, -limits.max_rotation_action, limits.max_rotation_action)
    return np.clip(np.r_[translation, turn, gripper], -1.0, 1.0).astype(np.float32)


def travel_height(
    start_xy: Array, end_xy: Array, obstacle_points: Array, hang_m: float, lowest_m: float
) -> float:
    """Height of the end effector, metres, at which a straight carry clears what is in the way.

    Args:
        start_xy: Start of the carry, (2,), metres, world frame.
        end_xy: End of the carry, (2,), metres, world frame.
        obstacle_points: Surface points of everything but the carried object, (N, 3), world frame.
        hang_m: How far the carried object reaches below the end effector, metres.
        lowest_m: The answer is at least this, metres.
    """
    if len(obstacle_points) == 0:
        return lowest_m
    path = np.asarray(end_xy) - start_xy
    offsets = obstacle_points[:, :2] - start_xy
    along = np.clip(offsets @ path / max(1e-6, float(path @ path)), 0.0, 1.0)
    distances = np.linalg.norm(offsets - along[:, None] * path, axis=1)
    near = obstacle_points[distances < CORRIDOR_HALF_WIDTH_M]
    if len(near) == 0:
        return lowest_m
    return max(lowest_m, float(near[:, 2].max()) + hang_m + TRAVEL_CLEARANCE_M)
