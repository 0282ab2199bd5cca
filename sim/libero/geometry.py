"""Where things are and how big they are, read from the live physics model.

Frames: positions in metres in the world frame, quaternions (x, y, z, w). Collision shapes count,
decoration does not. Positions are those of the last physics substep (2 ms old at most).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError, nearest
from sim.libero.rotation import matrix_from_quat, quat_from_matrix

Array = NDArray[np.float64]

_UNIT_CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
_NUM_CIRCLE_POINTS = 16


@dataclass(frozen=True)
class Pose:
    """Position (3,) in metres and orientation (4,) xyzw, world frame."""

    position: Array
    quat: Array


@dataclass(frozen=True)
class Extent:
    """Axis-aligned bounds in the world frame, metres. `low` and `high` have shape (3,)."""

    low: Array
    high: Array

    @property
    def size(self) -> Array:
        """Edge lengths, (3,), metres."""
        return self.high - self.low

    @property
    def center(self) -> Array:
        """Middle of the bounds, (3,), metres."""
        return (self.low + self.high) / 2.0


@dataclass(frozen=True)
class OrientedBox:
    """A box around a thing, turned with it.

    Attributes:
        center: (3,), metres, world frame.
        quat: (4,), xyzw; the box's axes in the world frame.
        size: Full edge lengths along the box's own axes, (3,), metres.
    """

    center: Array
    quat: Array
    size: Array


class SceneGeometry:
    """Geometry of the named things of one scene.

    Args:
        model: Raw MuJoCo model.
        data: Raw MuJoCo data of that model.
        root_bodies: Name of an object or fixture to the name of its root body.
        sites: Names of sites that stand for regions.
        robot_xy: Where the robot's base stands, (2,), metres, world frame.

    Attributes:
        robot_xy: As given.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        root_bodies: Mapping[str, str],
        sites: tuple[str, ...],
        robot_xy: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.robot_xy: Array = np.asarray(robot_xy, dtype=np.float64)
        self._model = model
        self._data = data
        self._body_ids = {name: model.body(body).id for name, body in root_bodies.items()}
        self._site_ids = {name: model.site(name).id for name in sites}
        self._geoms = {name: self._collision_geoms(i) for name, i in self._body_ids.items()}
        self._local_points = {
            geom: _surface_points(model, geom) for geoms in self._geoms.values() for geom in geoms
        }
        # A thing without inner joints is rigid, so its points are kept in its own frame.
        self._rigid_points = {
            name: self._points_in_body_frame(name)
            for name, body in self._body_ids.items()
            if not self._has_inner_joints(body)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that can be asked for by name."""
        return (*self._body_ids, *self._site_ids)

    @property
    def solid_names(self) -> tuple[str, ...]:
        """Objects and fixtures that have a collision surface."""
        return tuple(name for name, geoms in self._geoms.items() if geoms)

    def pose(self, name: str) -> Pose:
        """Pose of an object's or fixture's root body, or of a region's site."""
        self._check(name)
        if name in self._site_ids:
            site = self._site_ids[name]
            matrix = self._data.site_xmat[site].reshape(3, 3)
            return Pose(self._data.site_xpos[site].copy(), quat_from_matrix(matrix))
        body = self._body_ids[name]
        return Pose(self._data.xpos[body].copy(), np.roll(self._data.xquat[body], -1))

    def points(self, name: str) -> Array:
        """Points on the collision surface, (N, 3), world frame. For a region: its eight corners."""
        self._check(name)
        if name in self._site_ids:
            site = self._site_ids[name]
            corners = _UNIT_CUBE * self._model.site_size[site]
            matrix = self._data.site_xmat[site].reshape(3, 3)
            return corners @ matrix.T + self._data.site_xpos[site]
        body = self._body_ids[name]
        if name in self._rigid_points:
            matrix = self._data.xmat[body].reshape(3, 3)
            return self._rigid_points[name] @ matrix.T + self._data.xpos[body]
        return self._world_points(name)

    def extent(self, name: str) -> Extent:
        """Axis-aligned bounds in the world frame."""
        points = self.points(name)
        return Extent(points.min(axis=0), points.max(axis=0))

    def oriented_box(self, name: str) -> OrientedBox:
        """Bounds along the thing's own axes."""
        pose = self.pose(name)
        matrix = matrix_from_quat(pose.quat)
        local = (
            self._rigid_points[name]
            if name in self._rigid_points
            else (self.points(name) - pose.position) @ matrix
        )
        low, high = local.min(axis=0), local.max(axis=0)
        return OrientedBox(pose.position + matrix @ ((low + high) / 2.0), pose.quat, high - low)

    def foot(self, name: str) -> Array:
        """Middle of the side of the thing's own box that it would come to rest on, (3,), metres.

        Where a tilted thing will stand when it is put down, which the middle of its bounds is not.
        A box that stands on an edge falls to the side over which its middle lies: it lies down on
        its flat side from a tilt t with tan(t) < width / height.
        """
        box = self.oriented_box(name)
        axes = matrix_from_quat(box.quat)
        upright = int(np.argmax(np.abs(axes[2]) / np.maximum(box.size, 1e-6)))
        down = -np.sign(axes[2, upright]) * axes[:, upright]
        foot: Array = box.center + down * box.size[upright] / 2.0
        return foot

    def geoms(self, name: str) -> frozenset[int]:
        """Indices of the collision geoms of an object or fixture; empty for a region."""
        self._check(name)
        return frozenset(self._geoms.get(name, ()))

    def obstacle_points(self, excluding: tuple[str, ...] = ()) -> Array:
        """Surface points of every object and fixture but those named, (N, 3), world frame."""
        clouds = [
            self.points(name)
            for name, geoms in self._geoms.items()
            if geoms and name not in excluding
        ]
        return np.concatenate(clouds) if clouds else np.zeros((0, 3))

    def _check(self, name: str) -> None:
        if name not in self._body_ids and name not in self._site_ids:
            close = nearest(str(name), self.names, 1)
            raise InvalidArgumentError(
                "no such object, fixture or region in this scene",
                field="name",
                value=repr(name),
                allowed=self.names,
                hint=f"did you mean {close[0]!r}?" if close else "",
            )

    def _subtree(self, root: int) -> set[int]:
        bodies = {root}
        for body in range(root + 1, self._model.nbody):  # MuJoCo numbers parents before children
            if self._model.body_parentid[body] in bodies:
                bodies.add(body)
        return bodies

    def _collision_geoms(self, root: int) -> tuple[int, ...]:
        bodies = self._subtree(root)
        return tuple(
            geom
            for geom in range(self._model.ngeom)
            if self._model.geom_bodyid[geom] in bodies
            and (self._model.geom_contype[geom] or self._model.geom_conaffinity[geom])
        )

    def _has_inner_joints(self, root: int) -> bool:
        inner = self._subtree(root) - {root}
        return any(self._model.body_jntnum[body] for body in inner)

    def _world_points(self, name: str) -> Array:
        clouds = [
            self._local_points[geom] @ self._data.geom_xmat[geom].reshape(3, 3).T
            + self._data.geom_xpos[geom]
            for geom in self._geoms[name]
        ]
        return np.concatenate(clouds) if clouds else self.pose(name).position[None]

    def _points_in_body_frame(self, name: str) -> Array:
        body = self._body_ids[name]
        matrix = self._data.xmat[body].reshape(3, 3)
        return (self._world_points(name) - self._data.xpos[body]) @ matrix


def _surface_points(model: Any, geom: int) -> Array:
    """Points that span a geom's convex hull, in the geom's frame, (N, 3)."""
    size = model.geom_size[geom]
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))  # numpy integers never equal the enum
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        start = model.mesh_vertadr[mesh]
        return np.array(model.mesh_vert[start : start + model.mesh_vertnum[mesh]], dtype=np.float64)
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return _UNIT_CUBE * size[0]
    if kind in (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE):
        angles = np.linspace(0.0, 2.0 * np.pi, _NUM_CIRCLE_POINTS, endpoint=False)
        half_length = size[1] + (size[0] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0)
        ring = np.c_[size[0] * np.cos(angles), size[0] * np.sin(angles), np.zeros_like(angles)]
        return np.concatenate([ring + [0, 0, half_length], ring - [0, 0, half_length]])
    # Boxes and ellipsoids carry their half sizes; a plane's size is no extent, so it is a point.
    return np.zeros((1, 3)) if kind == mujoco.mjtGeom.mjGEOM_PLANE else _UNIT_CUBE * size
