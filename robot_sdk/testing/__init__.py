"""For tests of robots and of programs that use the SDK. Needs no network and no pytest."""

from robot_sdk.testing.fake_brain import FakeDecision
from robot_sdk.testing.fake_policy import FakePolicyInput
from robot_sdk.testing.fake_server import FakeServer
from robot_sdk.testing.fake_transport import FakeTransport
from robot_sdk.testing.robot_contract import RobotContract
from robot_sdk.testing.simple_robot import SimpleRobot

__all__ = [
    "FakeDecision",
    "FakePolicyInput",
    "FakeServer",
    "FakeTransport",
    "RobotContract",
    "SimpleRobot",
]
