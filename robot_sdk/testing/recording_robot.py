"""A robot that does nothing but remember what it was told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import Clock
from robot_sdk.observation import Observation
from robot_sdk.robot import Action


@dataclass(frozen=True)
class RobotCommand:
    """One call of the robot. `action` is None for hold(). `at_s` is on the robot's clock."""

    at_s: float
    action: NDArray[np.float32] | None


class RecordingRobot:
    """Remembers every act() and hold(), with time and thread.

    Attributes:
        commands: act() and hold() in order; an act() that raised is in it too.
        num_observed: Calls of observe().
        thread_ids: Identifiers of the threads that have called it.
        on_act: Called within act() before it returns; may advance a virtual clock, block or raise.
        on_hold: The same for hold().
        on_observe: The same for observe().
        frame_ids: What observe() reports for the cameras; may be changed at any time.
    """

    def __init__(self, clock: Clock, *, control_hz: float = 20.0, action_dim: int = 1) -> None:
        self._clock = clock
        self._control_hz = control_hz
        self._action_dim = action_dim
        self.commands: list[RobotCommand] = []
        self.num_observed = 0
        self.thread_ids: set[int] = set()
        self.on_act: Callable[[Action], None] | None = None
        self.on_hold: Callable[[], None] | None = None
        self.on_observe: Callable[[], None] | None = None
        self.frame_ids: Mapping[str, int] = {}

    @property
    def control_hz(self) -> float:
        return self._control_hz

    @property
    def action_dim(self) -> int:
        return self._action_dim

    @property
    def actions(self) -> list[NDArray[np.float32]]:
        """The actions among the commands, in order."""
        return [command.action for command in self.commands if command.action is not None]

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        self.thread_ids.add(threading.get_ident())
        self.num_observed += 1
        if self.on_observe is not None:
            self.on_observe()
        return Observation(captured_s=self._clock.now_s(), frame_ids=dict(self.frame_ids))

    def act(self, action: Action) -> None:
        self.thread_ids.add(threading.get_ident())
        self.commands.append(RobotCommand(self._clock.now_s(), action.copy()))
        if self.on_act is not None:
            self.on_act(action)

    def hold(self) -> None:
        self.thread_ids.add(threading.get_ident())
        self.commands.append(RobotCommand(self._clock.now_s(), None))
        if self.on_hold is not None:
            self.on_hold()
