from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from robot_sdk.clock import VirtualClock
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.robot import Robot
from robot_sdk.testing import RobotContract
from server.policy.flow.features import INPUT_WIDTHS
from sim.libero.env import LiberoEnv
from sim.libero.policy_inputs import PolicyTask
from sim.libero.robot import LiberoRobot

pytestmark = pytest.mark.sim


@pytest.fixture
def robot(pudding_env: LiberoEnv) -> LiberoRobot:
    pudding_env.reset()
    return LiberoRobot(pudding_env, VirtualClock(5.0))


class TestContract(RobotContract):
    @pytest.fixture(autouse=True)
    def _use_env(self, pudding_env: LiberoEnv) -> None:
        self.env = pudding_env

    def make_robot(self) -> LiberoRobot:
        self.env.reset()
        return LiberoRobot(self.env)


def test_it_is_a_robot_at_libero_s_rate_and_width(robot: LiberoRobot) -> None:
    assert isinstance(robot, Robot)
    assert (robot.control_hz, robot.action_dim) == (20.0, 7)


def test_sensors_come_without_pictures_unless_they_are_asked_for(
    robot: LiberoRobot, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[str, int]] = []

    def draw(camera: str, size: int) -> np.ndarray:
        drawn.append((camera, size))
        return np.zeros((size, size, 3), np.uint8)

    monkeypatch.setattr(robot.env, "policy_image", draw)

    assert robot.observe().images == {}
    assert drawn == []
    seen = robot.observe(["images/wrist", "observation/state"])
    assert drawn == [("robot0_eye_in_hand", 224)]
    assert set(seen.images) == {"images/wrist"}
    assert set(seen.tensors) == {"observation/state"}
    assert seen.captured_s == 5.0


def test_f8_state_is_eight_numbers_with_both_fingers_apart(robot: LiberoRobot) -> None:
    state = robot.observe(["observation/state"]).tensors["observation/state"]

    assert (state.shape, state.dtype) == ((8,), np.float32)
    assert state[6] > 0.03
    assert state[7] < -0.03


def test_f8_plus_one_closes_and_a_hold_keeps_the_command(robot: LiberoRobot) -> None:
    close = np.array([0, 0, 0, 0, 0, 0, 1], np.float32)
    robot.act(close)
    for _ in range(20):
        robot.hold()

    assert robot.gripper_command == 1.0
    assert robot.env.arm().opening_m < 0.01


def test_unknown_keys_are_refused_with_the_known_ones(robot: LiberoRobot) -> None:
    with pytest.raises(InvalidArgumentError, match=r"images/wrist.*did you mean"):
        robot.observe(["images/wirst"])


def test_privileged_keys_exist_only_while_a_target_is_set(robot: LiberoRobot) -> None:
    with pytest.raises(InvalidArgumentError, match="set a target"):
        robot.observe(tuple(INPUT_WIDTHS))

    robot.target = PolicyTask(robot.env, "chocolate_pudding_1", None)
    tensors = robot.observe(tuple(INPUT_WIDTHS)).tensors

    assert {key: value.shape for key, value in tensors.items()} == {
        key: (width,) for key, width in INPUT_WIDTHS.items()
    }
