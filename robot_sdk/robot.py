"""What a robot must be able to do for the control loop."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

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
