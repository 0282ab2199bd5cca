"""Where to put an object down, from the goal that the task states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError
from sim.libero.geometry import SceneGeometry
from sim.libero.grasp import GraspTarget

Array = NDArray[np.float64]

#: Gap between the object's bottom and what it is put into or onto at release, metres.
_RELEASE_GAP_M = {"in": 0.005, "on": 0.015}


@dataclass(frozen=True)
class Goal:
    """One predicate of a task's goal, for example ("in", ("milk_1", "basket_1_contain_region")).

    Attributes:
        predicate: "in", "on", "open", "close", "turnon", "turnoff", as LIBERO names them.
        arguments: Names of objects, fixtures or regions; for "in" and "on": what, and where.
    """

    predicate: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class PlaceTarget:
    """Where an object should go.

    Attributes:
        relation: "in" drops from above the rim, "on" puts down on the surface.
        center_xy: Where the middle of the object should come, (2,), metres, world frame.
        support_m: Height of the rim ("in") or the surface ("on"), metres.
        support: Name of the thing that takes the object.
    """

    relation: Literal["in", "on"]
    center_xy: Array
    support_m: float
    support: str

    def release_position(self, grasp: GraspTarget) -> Array:
        """Where the end effector opens, (3,), metres, for an object held as in `grasp`."""
        return self._release(grasp.offset_xy, grasp.hang_m)

    def release_of_held(self, geometry: SceneGeometry, name: str, hand: Array) -> Array:
        """Where the end effector opens, (3,), metres, for an object as it hangs now.

        Args:
            geometry: The scene.
            name: The object.
            hand: Position of the end effector now, (3,), metres, world frame.
        """
        extent = geometry.extent(name)
        # A tilted object stands up when it is put on something, so there its foot is its middle.
        middle = geometry.foot(name) if self.relation == "on" else extent.center
        return self._release(hand[:2] - middle[:2], float(hand[2] - extent.low[2]))

    def _release(self, offset_xy: Array, hang_m: float) -> Array:
        height = self.support_m + hang_m + _RELEASE_GAP_M[self.relation]
        return np.r_[self.center_xy + offset_xy, height]


def place_target(geometry: SceneGeometry, relation: str, destination: str) -> PlaceTarget:
    """Where "`relation` `destination`" is.

    A region that belongs to a movable container (a basket's "contain" region) is entered over the
    container's rim; any other region is a surface at its site.

    Raises:
        InvalidArgumentError: The relation is not "in" or "on", or no such thing.
    """
    if relation not in _RELEASE_GAP_M:
        raise InvalidArgumentError(
            "not a placing goal", field="relation", value=repr(relation), allowed=_RELEASE_GAP_M
        )
    kind: Literal["in", "on"] = "in" if relation == "in" else "on"
    owner = destination.removesuffix("_contain_region")
    if owner in geometry.names and geometry.geoms(owner):
        extent = geometry.extent(owner)
        return PlaceTarget(kind, extent.center[:2], float(extent.high[2]), owner)
    position = geometry.pose(destination).position
    return PlaceTarget(kind, position[:2], float(position[2]) + 0.01, destination)
