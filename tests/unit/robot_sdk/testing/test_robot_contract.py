"""The contract tests accept a good robot and catch each kind of bad one."""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.observation import Observation
from robot_sdk.testing import RobotContract, SimpleRobot


class TestSimpleRobot(RobotContract):
    def make_robot(self):
        return SimpleRobot()

    def camera_keys(self, robot):
        return ("images/camera",)


class Overwrites(SimpleRobot):
    def __init__(self):
        super().__init__()
        self._buffer = np.zeros(1, np.float32)

    def observe(self, keys=None):
        super().observe(keys)
        self._buffer += 1
        return Observation(tensors={"observation/state": self._buffer})


class Travels(SimpleRobot):
    def observe(self, keys=None):
        super().observe(keys)
        return Observation(tensors={"name": np.array(["arm"])})


class AlwaysReadsItsCamera(SimpleRobot):
    def observe(self, keys=None):
        return super().observe([*(keys or ["observation/state"]), "images/camera"])


class TimeGoesBack(SimpleRobot):
    def observe(self, keys=None):
        self._time_s = getattr(self, "_time_s", 0.0) - 1.0
        return Observation(captured_s=self._time_s)


class AcceptsAnyKey(SimpleRobot):
    def observe(self, keys=None):
        return super().observe()


class ChangesItsArgument(SimpleRobot):
    def act(self, action):
        action += 1


class CannotHold(SimpleRobot):
    def hold(self):
        raise RuntimeError("not now")


class IsAsync(SimpleRobot):
    async def act(self, action): ...


class HasNoRate(SimpleRobot):
    control_hz = 0.0


class Incomplete:
    control_hz = 20.0
    action_dim = 1


@pytest.mark.parametrize(
    ("robot_type", "test"),
    [
        (Incomplete, "test_it_has_every_method_of_a_robot"),
        (IsAsync, "test_it_blocks_no_caller_with_coroutines"),
        (HasNoRate, "test_rate_and_width_are_usable"),
        (Travels, "test_observations_can_travel"),
        (AlwaysReadsItsCamera, "test_only_what_was_asked_for_is_observed"),
        (AcceptsAnyKey, "test_unknown_keys_are_refused_by_name"),
        (TimeGoesBack, "test_time_of_capture_does_not_go_back"),
        (Overwrites, "test_an_observation_does_not_change_afterwards"),
        (ChangesItsArgument, "test_the_action_is_not_changed"),
        (CannotHold, "test_holding_is_always_allowed"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_bad_robot_is_caught(robot_type, test):
    contract = RobotContract()
    contract.make_robot = robot_type
    with pytest.raises((AssertionError, RuntimeError)) as caught:
        getattr(contract, test)()
    assert str(caught.value)
