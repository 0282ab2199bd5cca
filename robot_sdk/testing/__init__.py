"""For tests of robots and of programs that use the SDK. Needs no network and no pytest."""

from robot_sdk.testing.fake_brain import FakeDecision
from robot_sdk.testing.fake_policy import FakePolicyInput
from robot_sdk.testing.fake_server import FakeServer
from robot_sdk.testing.fake_transport import FakeTransport
from robot_sdk.testing.recording_robot import RecordingRobot
from robot_sdk.testing.robot_contract import RobotContract
from robot_sdk.testing.simple_robot import SimpleRobot
from robot_sdk.testing.virtual_control import VirtualControl
from robot_sdk.testing.virtual_policy import VirtualPolicyStream

__all__ = [
    "FakeDecision",
    "FakePolicyInput",
    "FakeServer",
    "FakeTransport",
    "RecordingRobot",
    "RobotContract",
    "SimpleRobot",
    "VirtualControl",
    "VirtualPolicyStream",
]
