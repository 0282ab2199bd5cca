"""Who made a grasp: a policy, or a script.

The fingers' last close command decides: whoever gave it owns every grasp until they open again,
also when the object slips for a moment while somebody else carries it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Actor = Literal["policy", "scripted"]


@dataclass(frozen=True)
class Grasp:
    """One grasp.

    Attributes:
        name: The object.
        step: Control step at which both fingers first touched it.
        actor: Who gave the close command.
    """

    name: str
    step: int
    actor: Actor


class GraspLog:
    """Watches gripper commands and contacts, one call of `update` per control step."""

    def __init__(self) -> None:
        self._closed_by: Actor | None = None
        self._held: str | None = None
        self._grasps: list[Grasp] = []

    @property
    def grasps(self) -> tuple[Grasp, ...]:
        """All grasps, oldest first."""
        return tuple(self._grasps)

    def last(self, name: str) -> Grasp | None:
        """The latest grasp of an object, None if it was never held."""
        return next((grasp for grasp in reversed(self._grasps) if grasp.name == name), None)

    def update(self, step: int, actor: Actor, gripper: float, held: str | None) -> None:
        """Take in one executed step.

        Args:
            step: Control step.
            actor: Who made the action.
            gripper: The action's gripper value; above 0 closes.
            held: The object that both fingers touch after the step, None for none.
        """
        if gripper <= 0.0:
            self._closed_by = None
            self._held = None
            return
        if self._closed_by is None:
            self._closed_by = actor
        if held is not None and held != self._held:
            self._held = held
            self._grasps.append(Grasp(held, step, self._closed_by))
