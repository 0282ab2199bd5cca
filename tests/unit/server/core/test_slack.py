from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.slack import RobotWork, slack_s


@pytest.mark.parametrize(
    ("steps_left", "buffered", "expected"),
    [(40, None, 1.5), (40, 5, 1.5), (None, 20, 0.5), (0, 9, 0.0), (None, None, None)],
)
def test_a_running_tool_keeps_the_robot_busy_for_its_steps_or_else_its_rows(
    steps_left: int | None, buffered: int | None, expected: float | None
) -> None:
    assert slack_s(RobotWork(True, steps_left, buffered, 20.0, age_s=0.5)) == expected


def test_a_robot_that_waits_for_its_brain_has_no_slack() -> None:
    assert slack_s(RobotWork(False, None, None, 20.0, age_s=0.0)) == 0.0


def test_without_a_control_rate_steps_are_no_time() -> None:
    assert slack_s(RobotWork(True, 40, None, 0.0, age_s=0.0)) is None


@given(
    st.booleans(),
    st.none() | st.integers(0, 2**32),
    st.none() | st.integers(0, 2**32),
    st.floats(0, 10_000),
    st.floats(-10, 1e6),
)
def test_slack_is_never_negative_and_never_grows_with_the_age(
    running: bool, left: int | None, buffered: int | None, hz: float, age_s: float
) -> None:
    now = slack_s(RobotWork(running, left, buffered, hz, age_s))
    later = slack_s(RobotWork(running, left, buffered, hz, age_s + 1.0))

    assert (now is None) == (later is None)
    assert now is None or later is None or 0.0 <= later <= now
