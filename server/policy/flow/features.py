"""The flow policy's inputs by name, and the numbers its network sees.

One module for training and serving, so that the two cannot drift apart. The features know nothing
of object names: a target is a box, taken across its narrow side, so that the policy can work on
objects and suites that it has not been trained on.

Inputs (all float32; world frame; metres, radians, seconds; batch axis optional):

    observation/state         (8,)  end effector position (3), axis-angle (3), finger joints (2),
                                    exactly the state of LIBERO and of the public pi0.5 checkpoints
    observation/gripper_qvel  (2,)  finger joint speeds
    privileged/target_pos     (3,)  middle of the box to grasp (the object, or a piece of its rim)
    privileged/target_quat    (4,)  the box's axes, xyzw
    privileged/target_size    (3,)  full edge lengths of the box
    privileged/approach_height (1,) height at which the end effector goes over to the target
    privileged/place_pos      (3,)  where the end effector should let go
    privileged/carry_height   (1,)  height of the end effector while carrying
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import ObservationMismatchError
from server.policy.flow.grasp_frame import grasp_frame

Array = NDArray[np.float64]

STATE = "observation/state"
GRIPPER_QVEL = "observation/gripper_qvel"
TARGET_POS = "privileged/target_pos"
TARGET_QUAT = "privileged/target_quat"
TARGET_SIZE = "privileged/target_size"
APPROACH_HEIGHT = "privileged/approach_height"
PLACE_POS = "privileged/place_pos"
CARRY_HEIGHT = "privileged/carry_height"

#: Width of every input.
INPUT_WIDTHS: Mapping[str, int] = {
    STATE: 8,
    GRIPPER_QVEL: 2,
    TARGET_POS: 3,
    TARGET_QUAT: 4,
    TARGET_SIZE: 3,
    APPROACH_HEIGHT: 1,
    PLACE_POS: 3,
    CARRY_HEIGHT: 1,
}

#: Change with every change of meaning, order or scale below; a checkpoint names the version it
#: was trained with and is refused by any other.
FEATURES_VERSION = 1

FEATURE_NAMES: tuple[str, ...] = (
    *(f"rotation_to_grasp_{axis}" for axis in "xyz"),
    *(f"grasp_minus_hand_{axis}" for axis in "xyz"),
    *(f"grasp_minus_hand_{axis}_fine" for axis in "xyz"),
    "top_minus_hand_z",
    "bottom_minus_hand_z",
    "grasp_width",
    "approach_height_minus_hand_z",
    *(f"place_minus_hand_{axis}" for axis in "xyz"),
    *(f"place_minus_hand_{axis}_fine" for axis in "xyz"),
    "carry_height_minus_hand_z",
    "opening",
    "opening_speed",
    "opening_minus_width",
)
NUM_FEATURES = len(FEATURE_NAMES)

#: Distance at which the "fine" features saturate, metres: they resolve the last centimetres.
_FINE_SCALE_M = 0.015


def batch_inputs(inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, Array]:
    """Check the named inputs and give each a batch axis: name to (B, width), float64.

    Raises:
        ObservationMismatchError: An input is missing, has another width or batch size, is not
            numeric or not finite. The message names it.
    """
    result: dict[str, Array] = {}
    num_rows: int | None = None
    for name, width in INPUT_WIDTHS.items():
        if name not in inputs:
            raise ObservationMismatchError(
                "missing input", field=name, value=sorted(inputs), allowed=INPUT_WIDTHS
            )
        array = np.asarray(inputs[name])
        if array.dtype.kind not in "fiu":
            raise ObservationMismatchError(
                "not a numeric array", field=name, value=array.dtype, allowed=["float32"]
            )
        rows = array.astype(np.float64).reshape((1, -1) if array.ndim <= 1 else array.shape)
        if rows.ndim != 2 or rows.shape[1] != width or num_rows not in (None, len(rows)):
            raise ObservationMismatchError(
                "wrong shape",
                field=name,
                value=array.shape,
                allowed=[f"({width},)", f"({num_rows or 'B'}, {width})"],
            )
        if not np.all(np.isfinite(rows)):
            raise ObservationMismatchError("NaN or infinite", field=name, value=rows.tolist())
        num_rows = len(rows)
        result[name] = rows
    if np.any(np.linalg.norm(result[TARGET_QUAT], axis=1) < 1e-6):
        raise ObservationMismatchError(
            "a quaternion of length zero", field=TARGET_QUAT, allowed=["unit quaternions, xyzw"]
        )
    return result


def compute_features(inputs: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float32]:
    """What the network sees, (B, NUM_FEATURES), float32, in the order of `FEATURE_NAMES`."""
    named = batch_inputs(inputs)
    hand = named[STATE][:, :3]
    opening = named[STATE][:, 6] - named[STATE][:, 7]
    opening_speed = named[GRIPPER_QVEL][:, 0] - named[GRIPPER_QVEL][:, 1]
    grasp = grasp_frame(named[TARGET_POS], named[TARGET_QUAT], named[TARGET_SIZE])
    to_grasp = grasp.position - hand
    to_place = named[PLACE_POS] - hand
    columns = [
        _rotation_to(_gripper_matrices(grasp.yaw_rad), _matrices(named[STATE][:, 3:6])),
        to_grasp,
        np.tanh(to_grasp / _FINE_SCALE_M),
        (grasp.top_m - hand[:, 2])[:, None],
        (grasp.bottom_m - hand[:, 2])[:, None],
        grasp.width_m[:, None],
        named[APPROACH_HEIGHT] - hand[:, 2:],
        to_place,
        np.tanh(to_place / _FINE_SCALE_M),
        named[CARRY_HEIGHT] - hand[:, 2:],
        opening[:, None],
        opening_speed[:, None],
        (opening - grasp.width_m)[:, None],
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def _matrices(axis_angles: Array) -> Array:
    """Rotation matrices (B, 3, 3) of axis-angle vectors (B, 3) (Rodrigues' formula).

    The network never sees the axis-angle itself: it jumps between nearby poses at a half turn,
    which is where a gripper that points down lives.
    """
    angle = np.linalg.norm(axis_angles, axis=1)
    axis = axis_angles / np.maximum(angle, 1e-12)[:, None]
    x, y, z = axis.T
    zero = np.zeros_like(x)
    cross = np.moveaxis(np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]), 2, 0)
    sine, cosine = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.eye(3) + sine * cross + (1.0 - cosine) * (cross @ cross)


def _gripper_matrices(yaw_rad: Array) -> Array:
    """Gripper pointing down, turned by yaw about the world's z axis, (B, 3, 3)."""
    c, s, zero = np.cos(yaw_rad), np.sin(yaw_rad), np.zeros_like(yaw_rad)
    rows = np.array([[c, s, zero], [s, -c, zero], [zero, zero, zero - 1.0]])
    return np.moveaxis(rows, 2, 0)


def _rotation_to(target: Array, current: Array) -> Array:
    """Sine-scaled axis (B, 3) of the rotation from `current` to `target`, world frame.

    Axis times sin(angle / 2) * 2: close to the rotation vector for small angles, smooth and
    without trigonometric inverses up to half a turn.
    """
    relative = target @ np.swapaxes(current, 1, 2)
    axis_sine = (
        np.stack(
            [
                relative[:, 2, 1] - relative[:, 1, 2],
                relative[:, 0, 2] - relative[:, 2, 0],
                relative[:, 1, 0] - relative[:, 0, 1],
            ],
            axis=1,
        )
        / 2.0
    )
    cosine_half = np.sqrt(np.maximum((np.trace(relative, axis1=1, axis2=2) + 1.0) / 4.0, 1e-4))
    return axis_sine / cosine_half[:, None]
