"""The smallest robot that fulfils `Robot`: a point on a line. Used by the docs and the tests."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.observation import Observation
from robot_sdk.robot import Action

STATE_KEY = "observation/state"
CAMERA_KEY = "images/camera"
_PICTURE_SHAPE = (8, 16, 3)


class SimpleRobot:
    """Moves along one axis by the first number of each action.

    Attributes:
        actions: Every action it was given, oldest first.
        num_holds: How often it was told to hold.
    """

    def __init__(
        self, *, control_hz: float = 20.0, action_dim: int = 1, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.actions: list[Action] = []
        self.num_holds = 0
        self._control_hz = control_hz
        self._action_dim = action_dim
        self._clock = clock
        self._position = 0.0
        self._num_frames = 0

    @property
    def control_hz(self) -> float:
        """Control rate, actions per second."""
        return self._control_hz

    @property
    def action_dim(self) -> int:
        """Width of an action."""
        return self._action_dim

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        """The position, and a picture if it is asked for."""
        wanted = {STATE_KEY} if keys is None else set(keys)
        unknown = wanted - {STATE_KEY, CAMERA_KEY}
        if unknown:
            raise InvalidArgumentError(
                "no such observation",
                field="keys",
                value=sorted(unknown),
                allowed=[STATE_KEY, CAMERA_KEY],
            )
        tensors: dict[str, NDArray[np.generic]] = {}
        images: dict[str, NDArray[np.generic]] = {}
        if STATE_KEY in wanted:
            tensors[STATE_KEY] = np.array([self._position], np.float32)
        if CAMERA_KEY in wanted:
            self._num_frames += 1
            images[CAMERA_KEY] = np.full(_PICTURE_SHAPE, self._num_frames % 256, np.uint8)
        return Observation(
            tensors=tensors,
            images=images,
            captured_s=self._clock.now_s(),
            frame_ids={CAMERA_KEY: self._num_frames} if images else {},
        )

    def act(self, action: Action) -> None:
        """Move by action[0]."""
        self.actions.append(np.array(action, np.float32))
        self._position += float(action[0])

    def hold(self) -> None:
        """Stay."""
        self.num_holds += 1
