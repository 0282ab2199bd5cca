"""What a robot must be able to do for the control loop."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.observation import Observation

Action = NDArray[np.float32]


@runtime_checkable
class Robot(Protocol):
    """A robot or a simulator. Only the control loop calls it, always from one thread.

    A robot's own author checks an implementation with `robot_sdk.testing.RobotContract`.
    """

    @property
    def control_hz(self) -> float:
        """Control rate, actions per second."""

    @property
    def action_dim(self) -> int:
        """Width of an action."""

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        """Read the sensors now.

        Args:
            keys: Names of the tensors and images that are wanted. None means everything that is
                cheap, which may leave out cameras. Unknown names are an InvalidArgumentError that
                lists the known ones.
        """

    def act(self, action: Action) -> None:
        """Execute one action for one control period. Shape (action_dim,), float32.

        Returns when the robot has accepted it; the control loop keeps the period.
        """

    def hold(self) -> None:
        """Stay where it is for one control period. Must be safe to call at any time."""


def check_robot(robot: object) -> None:
    """Refuse what cannot be a `Robot`, before anything moves. Calls none of its methods.

    Raises:
        InvalidArgumentError: Names everything that is missing or wrong.
    """
    faults = []
    for name in ("observe", "act", "hold"):
        method = getattr(robot, name, None)
        if not callable(method):
            faults.append(f"no method {name}()")
        elif inspect.iscoroutinefunction(method):
            faults.append(f"{name}() is async and must not be")
    control_hz = getattr(robot, "control_hz", None)
    if not (_is_number(control_hz) and math.isfinite(control_hz) and control_hz > 0):
        faults.append(f"control_hz is {control_hz!r} and must be a rate above 0, per second")
    action_dim = getattr(robot, "action_dim", None)
    if not (isinstance(action_dim, (int, np.integer)) and action_dim >= 1):
        faults.append(f"action_dim is {action_dim!r} and must be a whole number of at least 1")
    if faults:
        raise InvalidArgumentError(
            f"{type(robot).__name__} is no Robot: " + "; ".join(faults),
            field="robot",
            hint="robot_sdk.robot.Robot says what it must have, and "
            "robot_sdk.testing.RobotContract checks what it does",
        )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float, np.integer, np.floating))
