"""What the robot can tell the brain about the scene, as plain values.

Ground truth from the simulator stands in for a detector: the same names and numbers that a
perception system would have to find.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from robot_sdk.errors import InvalidArgumentError, nearest
from sim.libero.env import ArmState, LiberoEnv
from sim.libero.motion import gripper_yaw
from sim.libero.rotation import matrix_from_quat

#: Name under which `localise` tells where the gripper is.
GRIPPER = "gripper"
_DECIMALS = 4


@dataclass(frozen=True)
class Thing:
    """One object, place or the gripper. Metres and radians, world frame, z up.

    Attributes:
        position: Middle of the bounds; for the gripper the point between the fingertips.
        size: Edge lengths of the axis-aligned bounds.
        yaw: Turn about z; for the gripper 0 means that the fingers open along y.
        foot: Middle of its lower side, where it will stand when let go; for the gripper the same as
            position.
    """

    name: str
    position: tuple[float, ...]
    size: tuple[float, ...]
    yaw: float
    foot: tuple[float, ...]


def object_names(env: LiberoEnv) -> tuple[str, ...]:
    """Movable objects of the scene."""
    return env.object_names


def place_names(env: LiberoEnv) -> tuple[str, ...]:
    """Fixtures, and regions of objects or fixtures; marks on the floor are left out."""
    owners = (*env.object_names, *env.fixture_names)
    things = set(owners)
    regions = [
        name
        for name in env.geometry.names
        if name not in things and any(name.startswith(f"{owner}_") for owner in owners)
    ]
    fixtures = [name for name in env.fixture_names if name in env.geometry.names]
    return (*fixtures, *regions)


def locate(env: LiberoEnv, name: str) -> Thing:
    """Where a thing is now.

    Raises:
        InvalidArgumentError: Unknown name; lists the known ones.
    """
    if name == GRIPPER:
        return locate_gripper(env.arm())
    known = (*object_names(env), *place_names(env), GRIPPER)
    if name not in known:
        close = nearest(name, known, 1)
        raise InvalidArgumentError(
            "no such thing in the scene",
            field="object",
            value=repr(name),
            allowed=known,
            hint=f"did you mean {close[0]!r}?" if close else "",
        )
    extent = env.geometry.extent(name)
    return Thing(
        name=name,
        position=_rounded(extent.center),
        size=_rounded(extent.size),
        yaw=_yaw(matrix_from_quat(env.geometry.pose(name).quat)),
        foot=_rounded(env.geometry.foot(name)),
    )


def locate_gripper(arm: ArmState) -> Thing:
    """Where the gripper is; its size is the opening between the fingers."""
    position = _rounded(arm.position)
    return Thing(
        GRIPPER,
        position,
        (round(arm.opening_m, _DECIMALS),),
        round(gripper_yaw(arm), _DECIMALS),
        foot=position,
    )


def words_of(name: str) -> str:
    """A name as people write it: "akita_black_bowl_1" is "akita black bowl"."""
    return re.sub(r"_\d+$", "", name).replace("_", " ")


def mentioned(text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that a text holds, themselves or their words, in the order of their first occurrence.

    A name within a longer name does not count, and of names that mean the same words only the
    first does.
    """
    lowered = text.lower()
    found: list[tuple[int, int, str]] = []
    spellings = [(name, name) for name in names] + [(words_of(name), name) for name in names]
    for spelling, name in sorted(spellings, key=lambda pair: -len(pair[0])):
        start = lowered.find(spelling)
        end = start + len(spelling)
        known = any(other == name for _, _, other in found)
        if start >= 0 and not known and not any(s < end and start < e for s, e, _ in found):
            found.append((start, end, name))
    return tuple(name for _, _, name in sorted(found))


def _yaw(matrix: np.ndarray) -> float:
    return round(float(np.arctan2(matrix[1, 0], matrix[0, 0])), _DECIMALS)


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), _DECIMALS) for value in values)
