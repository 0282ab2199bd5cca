"""Tests that a robot's author runs on an own `Robot`.

Subclass `RobotContract` in a test file, say how to make the robot, and let pytest (or any runner
that collects `test_*` methods) do the rest:

    class TestMyArm(RobotContract):
        def make_robot(self):
            return MyArm("simulated")

The robot is moved by a few small actions; use a simulated one, or override `safe_action`.
"""

from __future__ import annotations

import inspect
import math

import numpy as np

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.observation import IMAGE_PREFIX, Observation
from robot_sdk.robot import Action, Robot
from robot_sdk.tensors import DTYPES

_UNKNOWN_KEY = "no/such/key"


class RobotContract:
    """What the control loop relies on."""

    def make_robot(self) -> Robot:
        """A fresh robot, ready to move. Override it."""
        raise NotImplementedError("override make_robot")

    def close_robot(self, robot: Robot) -> None:
        """Free the robot. Calls its `close` if it has one."""
        close = getattr(robot, "close", None)
        if callable(close):
            close()

    def safe_action(self, robot: Robot) -> Action:
        """An action that the robot may execute now. Zeros by default."""
        return np.zeros(robot.action_dim, np.float32)

    def camera_keys(self, robot: Robot) -> tuple[str, ...]:
        """Names of its cameras, if they are to be tested. None by default."""
        return ()

    def test_it_has_every_method_of_a_robot(self) -> None:
        """`Robot` lists them."""
        robot = self.make_robot()
        try:
            assert isinstance(robot, Robot), f"{type(robot).__name__} lacks a member of Robot"
        finally:
            self.close_robot(robot)

    def test_it_blocks_no_caller_with_coroutines(self) -> None:
        """The control loop calls plain functions."""
        robot = self.make_robot()
        try:
            for name in ("observe", "act", "hold"):
                assert not inspect.iscoroutinefunction(getattr(robot, name)), f"{name} is async"
        finally:
            self.close_robot(robot)

    def test_rate_and_width_are_usable(self) -> None:
        """A positive finite rate and at least one number an action."""
        robot = self.make_robot()
        try:
            assert math.isfinite(robot.control_hz), "control_hz is not finite"
            assert robot.control_hz > 0, "control_hz is not positive"
            assert robot.action_dim >= 1, "action_dim is below 1"
        finally:
            self.close_robot(robot)

    def test_observations_can_travel(self) -> None:
        """Tensors have a dtype of the wire and are finite; pictures are uint8 (H, W, 3)."""
        robot = self.make_robot()
        try:
            check_observation(robot.observe())
            cameras = self.camera_keys(robot)
            if cameras:
                observation = robot.observe(cameras)
                assert set(cameras) == set(observation.images), "not the cameras asked for"
                check_observation(observation)
        finally:
            self.close_robot(robot)

    def test_only_what_was_asked_for_is_observed(self) -> None:
        """Cameras are slow; one that nobody asked for must not be read."""
        robot = self.make_robot()
        try:
            names = sorted(robot.observe().tensors)
            if names:
                observation = robot.observe([names[0]])
                assert set(observation.tensors) == {names[0]}, "other tensors than asked for"
                assert not observation.images, "pictures that nobody asked for"
        finally:
            self.close_robot(robot)

    def test_unknown_keys_are_refused_by_name(self) -> None:
        """With an InvalidArgumentError that lists the known ones."""
        robot = self.make_robot()
        refusal: InvalidArgumentError | None = None
        try:
            robot.observe([_UNKNOWN_KEY])
        except InvalidArgumentError as error:
            refusal = error
        finally:
            self.close_robot(robot)
        assert refusal is not None, f"observe([{_UNKNOWN_KEY!r}]) was not refused"
        assert refusal.allowed, "the error does not list the known keys"

    def test_time_of_capture_does_not_go_back(self) -> None:
        """`captured_s` is on a monotonic clock."""
        robot = self.make_robot()
        try:
            first_s = robot.observe().captured_s
            robot.act(self.safe_action(robot))
            assert robot.observe().captured_s >= first_s, "captured_s went back"
        finally:
            self.close_robot(robot)

    def test_an_observation_does_not_change_afterwards(self) -> None:
        """The loop may still be sending it while the robot moves on."""
        robot = self.make_robot()
        try:
            observation = robot.observe()
            before = {key: np.array(value) for key, value in observation.tensors.items()}
            robot.act(self.safe_action(robot))
            robot.observe()
            for key, value in before.items():
                assert np.array_equal(value, observation.tensors[key], equal_nan=True), (
                    f"{key} was overwritten; observe() must return copies"
                )
        finally:
            self.close_robot(robot)

    def test_the_action_is_not_changed(self) -> None:
        """The loop keeps a reference to what it sent."""
        robot = self.make_robot()
        try:
            action = self.safe_action(robot)
            before = action.copy()
            robot.act(action)
            assert np.array_equal(action, before), "act() changed its argument"
        finally:
            self.close_robot(robot)

    def test_holding_is_always_allowed(self) -> None:
        """Before the first action, after one, and twice in a row."""
        robot = self.make_robot()
        try:
            robot.hold()
            robot.act(self.safe_action(robot))
            robot.hold()
            robot.hold()
        finally:
            self.close_robot(robot)


def check_observation(observation: Observation) -> None:
    """Assert that an observation can be sent."""
    for key, value in observation.tensors.items():
        assert isinstance(value, (np.ndarray, np.generic)), f"{key} is no numpy array"
        assert value.dtype.name in DTYPES, f"{key} has dtype {value.dtype}, which cannot travel"
        if value.dtype.kind == "f":
            assert np.isfinite(value).all(), f"{key} holds NaN or infinity"
    for key, image in observation.images.items():
        assert key.startswith(IMAGE_PREFIX), f"{key} does not start with {IMAGE_PREFIX!r}"
        assert image.dtype == np.uint8, f"{key} is not uint8"
        assert image.ndim == 3, f"{key} has shape {image.shape}, not (H, W, 3)"
        assert image.shape[2] == 3, f"{key} has shape {image.shape}, not (H, W, 3)"
