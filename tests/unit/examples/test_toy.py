from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from robot_sdk.robot import Robot
from robot_sdk.testing import RobotContract


class TestToyRobot(RobotContract):
    @pytest.fixture(autouse=True)
    def _load(self, example: Callable[[str], ModuleType]) -> None:
        self.toy = example("toy")

    def make_robot(self) -> Robot:
        robot: Robot = self.toy.ToyRobot()
        return robot
