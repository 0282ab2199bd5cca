from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.robot import check_robot
from robot_sdk.testing import SimpleRobot


class Scripted:
    """A robot whose parts can be replaced."""

    def __init__(self, **parts: object) -> None:
        self.control_hz: object = np.float64(20.0)
        self.action_dim: object = np.int64(7)
        self.observe = self.act = self.hold = lambda *_: None
        for name, part in parts.items():
            setattr(self, name, part)


async def _async() -> None: ...


def test_a_robot_is_taken_with_plain_and_numpy_numbers() -> None:
    check_robot(SimpleRobot())
    check_robot(Scripted())
    check_robot(Scripted(control_hz=10, action_dim=1))


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"act": None}, "no method act()"),
        ({"hold": _async}, "hold() is async"),
        ({"control_hz": float("inf")}, "control_hz is inf"),
        ({"control_hz": float("nan")}, "control_hz is nan"),
        ({"control_hz": -5.0}, "control_hz is -5.0"),
        ({"control_hz": lambda: 20.0}, "control_hz is <function"),
        ({"action_dim": 0}, "action_dim is 0"),
        ({"action_dim": 7.0}, "action_dim is 7.0"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(parts: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_robot(Scripted(**parts))
    assert named in str(caught.value)


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_robot(object())
    for name in ("observe()", "act()", "hold()", "control_hz", "action_dim"):
        assert name in str(caught.value)
