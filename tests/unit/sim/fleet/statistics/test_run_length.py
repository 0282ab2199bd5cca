from __future__ import annotations

import math

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.statistics import episode_s, needed_duration_s, too_short


def test_a_run_has_to_hold_the_slowest_episode_twice() -> None:
    assert needed_duration_s(800.0) == 1600.0
    assert too_short(1600.0, 800.0) is None
    assert "slowest episode takes 800 s" in (too_short(1599.0, 800.0) or "")


def test_under_a_quarter_of_an_hour_a_run_is_a_smoke_test_however_short_its_episodes() -> None:
    assert needed_duration_s(10.0) == 900.0
    assert "smoke test" in (too_short(300.0, 10.0) or "")


def test_an_episode_takes_its_turns_and_its_robots_own_time() -> None:
    assert episode_s([1.0, 0.0, 2.5], turns=4, turn_s=2.0) == 11.5


@pytest.mark.parametrize("slowest_s", [-1.0, math.nan])
def test_a_duration_that_is_none_is_refused(slowest_s: float) -> None:
    with pytest.raises(InvalidArgumentError, match="slowest_episode_s"):
        needed_duration_s(slowest_s)
