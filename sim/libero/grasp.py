"""Which part of an object to take between the fingers, and whether something is held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from server.policy.flow.grasp_frame import GraspFrame, grasp_frame
from sim.libero.geometry import Extent, OrientedBox, SceneGeometry
from sim.libero.rotation import matrix_from_quat, quat_from_matrix, yaw_matrix

Array = NDArray[np.float64]

#: The Panda gripper opens to 0.08 m; what is left of it after 1 cm of aiming error.
MAX_GRASP_WIDTH_M = 0.070
#: A hollow object's wall as the fingers meet it: thickness, length along the rim, depth, metres.
_RIM_SIZE_M = (0.012, 0.030, 0.032)
#: The wall's middle lies this far inside the object's outer bound, metres.
_RIM_INSET_M = 0.006
#: Places along the long side of an object at which it may be taken, metres from its middle.
_SHIFTS_M = (0.0, 0.012, -0.012, 0.024, -0.024)
_LONG_RATIO = 1.3
_FINGER_HALF_WIDTH_M = 0.012
#: Room that the hand should have beside its neighbours, metres.
_WANTED_CLEARANCE_M = 0.010
#: The hand takes things nearer to the robot than this, metres from its base, if it can choose.
#: Farther out the elbow is straight before a hand that points down has risen much: 0.13 m above the
#: shoulder at 0.70 m, 0.10 m below it at 0.78 m. From there the arm does not find back.
_GOOD_REACH_M = 0.70
#: Metres per radian that a turned grasp counts as worse.
_TURN_COST_M_PER_RAD = 0.006
#: The open Panda hand seen from above, half sizes along and across the gripper's x axis in metres,
#: and how far above the grasp point each part begins: the two fingers, and the palm over them.
_HAND_PARTS = (((0.012, 0.055), -0.019), ((0.032, 0.105), 0.020))


@dataclass(frozen=True)
class GraspTarget:
    """What the gripper should close on.

    Attributes:
        kind: "whole" when the object fits between the fingers, "rim" for a piece of its wall.
        box: The whole object's box, or the piece's; its narrow side goes between the fingers.
        hang_m: How far the object reaches below the grasp point, metres.
        offset_xy: Grasp point minus the middle of the object's bounds, (2,), metres.
        frame: The top-down grasp of `box` (a batch of one).
    """

    kind: Literal["whole", "rim"]
    box: OrientedBox
    hang_m: float
    offset_xy: Array
    frame: GraspFrame

    @property
    def position(self) -> Array:
        """Where the end effector closes, (3,), metres, world frame."""
        return self.frame.position[0]

    @property
    def yaw_rad(self) -> float:
        """Gripper yaw; 0 means that the fingers open along the world's y axis."""
        return float(self.frame.yaw_rad[0])


def plan_grasp(geometry: SceneGeometry, name: str) -> GraspTarget:
    """How to take the object `name` as it lies now.

    Across the side that fits between the fingers, at the place along the object where the hand
    has room beside its neighbours. An object that does not fit is taken by a piece of its rim; far
    from the robot by one on the near side.
    """
    extent = geometry.extent(name)
    others = [geometry.extent(other) for other in geometry.solid_names if other != name]
    pieces = _whole_pieces(geometry.oriented_box(name))
    kind: Literal["whole", "rim"] = "whole" if pieces else "rim"
    if not pieces:
        pieces = _rim_pieces(extent)

    def cost(piece: OrientedBox) -> float:
        # Only a rim leaves a choice that is worth anything.
        reach_m = float(np.linalg.norm(piece.center[:2] - geometry.robot_xy))
        stretch_m = max(0.0, reach_m - _GOOD_REACH_M) if kind == "rim" else 0.0
        return _cost(piece, others) + stretch_m

    box = min(pieces, key=cost)
    frame = _frame(box)
    return GraspTarget(
        kind=kind,
        box=box,
        hang_m=float(frame.position[0, 2] - extent.low[2]),
        offset_xy=frame.position[0, :2] - extent.center[:2],
        frame=frame,
    )


def _frame(box: OrientedBox) -> GraspFrame:
    return grasp_frame(box.center[None], box.quat[None], box.size[None])


def _cost(box: OrientedBox, others: list[Extent]) -> float:
    """Metres of room that the hand lacks, then how much it must turn."""
    frame = _frame(box)
    yaw = float(frame.yaw_rad[0])
    room = hand_clearance(frame.position[0], yaw, others)
    lacking = max(0.0, _WANTED_CLEARANCE_M - room)
    return float(frame.width_m[0]) + _TURN_COST_M_PER_RAD * abs(yaw) + 5.0 * lacking


def _whole_pieces(box: OrientedBox) -> list[OrientedBox]:
    """The box across each side that fits, also shifted along its long side; empty if none fits."""
    axes = matrix_from_quat(box.quat)
    upright = int(np.argmax(np.abs(axes[2])))
    first, second = (i for i in range(3) if i != upright)
    pieces: list[OrientedBox] = []
    for across, along in ((first, second), (second, first)):
        if box.size[across] > MAX_GRASP_WIDTH_M:
            continue
        size = box.size.copy()
        # `grasp_frame` takes a box across its narrow side: make sure that it is this one.
        size[along] = max(size[along], size[across] + 0.02)
        # A long thing may be taken anywhere along its straight side, others only in the middle.
        is_long = box.size[along] > _LONG_RATIO * box.size[across]
        spare = box.size[along] / 2.0 - _FINGER_HALF_WIDTH_M if is_long else 0.0
        for shift in (s for s in _SHIFTS_M if abs(s) <= spare):
            pieces.append(OrientedBox(box.center + shift * axes[:, along], box.quat, size))
    return pieces


def _rim_pieces(extent: Extent) -> list[OrientedBox]:
    """Pieces of the wall all around a hollow object."""
    radius = extent.size[:2].min() / 2.0 - _RIM_INSET_M
    pieces: list[OrientedBox] = []
    for angle in np.deg2rad(np.arange(0.0, 360.0, 15.0)):
        middle = np.r_[
            extent.center[:2] + radius * np.array([np.cos(angle), np.sin(angle)]),
            extent.high[2] - _RIM_SIZE_M[2] / 2.0,
        ]
        quat = quat_from_matrix(yaw_matrix(float(angle)))
        pieces.append(OrientedBox(middle, quat, np.array(_RIM_SIZE_M)))
    return pieces


def hand_clearance(position: Array, yaw_rad: float, others: list[Extent]) -> float:
    """Room around the open hand at a grasp, metres; negative when it would hit something.

    Args:
        position: The grasp point, (3,), metres, world frame.
        yaw_rad: Gripper yaw.
        others: Bounds of everything but the object to grasp.
    """
    turn = yaw_matrix(yaw_rad)[:2, :2]
    room = np.inf
    for half_size, bottom_m in _HAND_PARTS:
        grid = np.stack(
            np.meshgrid(
                np.linspace(-half_size[0], half_size[0], 3),
                np.linspace(-half_size[1], half_size[1], 11),
            ),
            axis=-1,
        ).reshape(-1, 2)
        points = grid @ turn.T + position[:2]
        for other in others:
            if other.high[2] < position[2] + bottom_m:
                continue
            outside = np.abs(points - other.center[:2]) - other.size[:2] / 2.0
            distance = np.linalg.norm(np.maximum(outside, 0.0), axis=1)
            distance = distance + np.minimum(outside.max(axis=1), 0.0)
            room = min(room, float(distance.min()))
    return room


class GraspSensor:
    """Tells from the simulator's contacts what the gripper holds.

    Args:
        model: Raw MuJoCo model.
        data: Raw MuJoCo data.
        geometry: The scene, for the geoms of each object.
        objects: Names of the movable objects.
        left_finger: Names of the geoms of the left finger.
        right_finger: Names of the geoms of the right finger.
        robot_geoms: Names of every geom of arm and gripper.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        geometry: SceneGeometry,
        objects: Iterable[str],
        left_finger: Iterable[str],
        right_finger: Iterable[str],
        robot_geoms: Iterable[str],
    ) -> None:
        self._data = data
        self._left = frozenset(model.geom(name).id for name in left_finger)
        self._right = frozenset(model.geom(name).id for name in right_finger)
        self._robot = frozenset(model.geom(name).id for name in robot_geoms)
        self._owner: Mapping[int, str] = {
            geom: name for name in objects for geom in geometry.geoms(name)
        }

    def held_object(self) -> str | None:
        """Name of the object that both fingers touch, or None."""
        touched = self._touched()
        return next((n for n, (left, right, _) in touched.items() if left and right), None)

    def grasped_object(self) -> str | None:
        """Name of the object that both fingers touch and nothing else supports, or None."""
        touched = self._touched()
        return next(
            (n for n, (left, right, other) in touched.items() if left and right and not other),
            None,
        )

    def clinging_object(self) -> str | None:
        """Name of the object that hangs on one finger with nothing else under it, or None.

        A finger pad can wedge itself between two pieces of an object's collision shape; opening
        alone does not free it then.
        """
        touched = self._touched()
        return next(
            (n for n, (left, right, other) in touched.items() if left != right and not other),
            None,
        )

    def _touched(self) -> dict[str, tuple[bool, bool, bool]]:
        """For each object in contact: touched by the left finger, the right, a non-robot thing."""
        result: dict[str, tuple[bool, bool, bool]] = {}
        for first, second in self._data.contact.geom[: self._data.ncon].tolist():
            for mine, other in ((first, second), (second, first)):
                name = self._owner.get(mine)
                if name is None or self._owner.get(other) == name:
                    continue
                left, right, supported = result.get(name, (False, False, False))
                result[name] = (
                    left or other in self._left,
                    right or other in self._right,
                    supported or other not in self._robot,
                )
        return result
