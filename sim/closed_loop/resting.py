"""A robot whose world is not computed while nothing in it moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import Clock
from robot_sdk.robot import Action
from sim.libero.env import LiberoEnv
from sim.libero.robot import LiberoRobot

#: The world is at rest if over so many holds in a row ...
WATCHED_STEPS = 10
#: ... no position of it changed by more than this, in m, rad or quaternion components. What is left
#: with empty fingers is their own last half millimetre.
REST_CHANGE = 5e-4
#: The same with something in the fingers. A squeezed object creeps, and one that creeps at half a
#: millimetre a second, as some do, falls before a slow brain has answered: that must be computed.
#: `python -m sim.closed_loop.rest_check` measures how far the rest still goes within a minute.
REST_CHANGE_HOLDING = 1e-4


class RestingRobot(LiberoRobot):
    """A LIBERO robot that leaves out control steps in which it holds and nothing moves.

    Once the world is at rest (`is_at_rest`), further holds are counted and not computed, until it
    acts again. A robot that waits a minute for its brain so costs the computing of seconds.

    Args:
        env, clock, on_step: As for LiberoRobot; `on_step` hears of computed steps only.
        leaves_out: False: every step is computed.

    Attributes:
        left_out_steps: Holds that were not computed.
    """

    def __init__(
        self,
        env: LiberoEnv,
        clock: Clock,
        on_step: Callable[[int], None] | None = None,
        *,
        leaves_out: bool = True,
    ) -> None:
        super().__init__(env, clock, on_step)
        self.left_out_steps = 0
        self._leaves_out = leaves_out
        self._watched: deque[NDArray[np.float64]] = deque(maxlen=WATCHED_STEPS + 1)

    @property
    def is_at_rest(self) -> bool:
        """Nothing has moved for a while, and the robot has held all that time."""
        if len(self._watched) <= WATCHED_STEPS:
            return False
        limit = REST_CHANGE if self.env.held_object() is None else REST_CHANGE_HOLDING
        return float(np.abs(self._watched[-1] - self._watched[0]).max()) <= limit

    def act(self, action: Action) -> None:
        """One control step of the physics; the world is no longer at rest."""
        self._watched.clear()
        super().act(action)

    def hold(self) -> None:
        """No motion for one control step, computed only if something may still move."""
        if self._leaves_out and self.is_at_rest:
            self.left_out_steps += 1
            return
        watched = list(self._watched)
        super().hold()
        self._watched.extend([*watched, self.env.positions()])
