"""What is said of many episodes."""

from __future__ import annotations

import dataclasses

import pytest

from sim.closed_loop.episode import ClosedLoopRecord
from sim.closed_loop.outcome import outcome, quartiles

GOOD = ClosedLoopRecord(
    suite="libero_object_swap",
    task=0,
    init=0,
    success=True,
    reason="finished",
    success_s=20.0,
    ended_s=25.0,
    brain_s=10.0,
    turns=17,
    steps=120,
    policy_steps=44,
    starved_ticks=4,
    start_wait_ticks=4,
    idle_ticks=380,
    left_out_steps=100,
    chunks=8,
    late_chunks=1,
    chunk_latency_p50_s=0.2,
    chunk_latency_p90_s=0.3,
    door_wait_s=30.0,
    wall_s=5.0,
)
BAD = dataclasses.replace(GOOD, success=False, success_s=None, ended_s=75.0, starved_ticks=16)


def test_success_is_counted_with_its_interval() -> None:
    found = outcome([GOOD, GOOD, GOOD, BAD])
    assert (found.successes, found.episodes, found.success_share) == (3, 4, 0.75)
    assert 0.2 < found.success_low < 0.75 < found.success_high < 0.99


def test_an_episode_without_success_takes_for_ever() -> None:
    assert outcome([GOOD, BAD]).success_s == (20.0, 20.0, None)
    assert outcome([BAD]).success_s == (None, None, None)


def test_a_goal_that_held_does_not_count_where_the_verdict_says_no() -> None:
    undone = dataclasses.replace(GOOD, success=False)
    assert outcome([undone]).success_s == (None, None, None)


def test_shares_are_of_all_time_and_all_ticks_together() -> None:
    found = outcome([GOOD, BAD])
    assert found.brain_share == pytest.approx(20.0 / 100.0)
    assert found.starved_share == pytest.approx(20.0 / 80.0)
    assert found.left_out_share == pytest.approx(200.0 / 1000.0)


def test_the_door_is_kept_apart() -> None:
    found = outcome([GOOD])
    assert found.door_wait_s == (30.0, 30.0, 30.0)
    assert found.success_s[1] == 20.0


def test_nothing_is_said_of_no_episodes() -> None:
    with pytest.raises(ValueError, match="no record"):
        outcome([])


def test_quartiles_are_values_that_there_are() -> None:
    assert quartiles([4.0, 1.0, 3.0, 2.0]) == (1.0, 2.0, 3.0)
    assert quartiles([]) == (None, None, None)
