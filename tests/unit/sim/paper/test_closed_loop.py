"""The closed-loop case: what it draws from, and what it says."""

from __future__ import annotations

import pytest

from server.core.admission import UnlimitedAdmission
from sim.closed_loop.chunk_load import AT_ONCE
from sim.closed_loop.delays import NO_DELAYS
from sim.closed_loop.outcome import Outcome
from sim.fleet.replay.result import EpisodeTimes, ReplayResult
from sim.fleet.replay.summary import summarise
from sim.fleet.replay.tally import Tally
from sim.paper.cases.closed_loop import (
    SUITE,
    Condition,
    chunk_conditions,
    delays_of,
    rows_of,
    shared_tier,
    table,
)

FOUND = Outcome(
    successes=8,
    episodes=10,
    success_low=0.49,
    success_high=0.94,
    success_s=(30.0, 40.0, None),
    ended_s=(35.0, 45.0, 90.0),
    brain_share=0.8,
    starved_share=0.1,
    starved_ticks=4.0,
    start_wait_ticks=5.0,
    steps=130.0,
    turns=17.0,
    chunk_latency_s=0.2,
    door_wait_s=(0.0, 60.0, 90.0),
    left_out_share=0.5,
)


def replayed(*episodes: EpisodeTimes) -> ReplayResult:
    result = summarise(
        Tally(0.0),
        UnlimitedAdmission(),
        seed=0,
        engine_version="0",
        duration_s=1800.0,
        is_partial=False,
        wall_s=1.0,
    )
    return ReplayResult.from_json(
        {**result.to_json(), "episode_times": [vars(episode) for episode in episodes]}
    )


def times(asked_s: float, family: str = SUITE, turns: int = 5) -> EpisodeTimes:
    return EpisodeTimes(family, asked_s, 1.0, tuple([asked_s] * turns), True)


def test_delays_come_from_this_suites_episodes_after_the_warm_up() -> None:
    late = [times(300.0 + i) for i in range(8)]
    others = [times(10.0), times(400.0, "libero_10_swap"), times(500.0, turns=2)]
    is_suite, found = delays_of([replayed(*late, *others)], 300.0)
    assert is_suite
    assert [delays.turn_latencies_s[0] for delays in found] == [300.0 + i for i in range(8)]
    assert {delays.door_wait_s for delays in found} == {1.0}


def test_a_fleet_that_lets_few_of_the_suite_in_is_drawn_from_as_a_whole() -> None:
    late = [times(300.0 + i, "libero_10_swap") for i in range(8)]
    is_suite, found = delays_of([replayed(times(350.0), times(5.0), *late)], 300.0)
    assert not is_suite
    assert len(found) == 9


def test_a_fleet_that_lets_nobody_in_later_is_drawn_from_its_beginning() -> None:
    is_suite, found = delays_of([replayed(*(times(0.0) for _ in range(20)))], 300.0)
    assert not is_suite
    assert len(found) == 20


def test_robots_ask_for_chunks_as_often_as_the_study_s() -> None:
    load = shared_tier(19, 1.6)
    assert load.num_others == 19
    assert load.running_s == pytest.approx(1582 / 216 * 0.25)
    # A tool entry every 8.62 turns, each with 1.24 s of the robot's own time.
    assert load.pause_s == pytest.approx(8.62 * (1.6 + 1.24) - 1.83, abs=0.02)


def test_slower_turns_leave_the_policys_gpu_more_idle() -> None:
    fast, slow = shared_tier(19, 1.6), shared_tier(19, 30.0)
    assert slow.pause_s > 5 * fast.pause_s


def test_chunks_alone_are_late_in_every_size_and_discipline_and_the_brain_is_not() -> None:
    conditions = chunk_conditions(quick=False)
    assert {c.load.num_others for c in conditions[1:]} == {0, 6, 15}
    assert {c.discipline for c in conditions[1:]} == {"paced", "prefetch"}
    assert all(c.episodes == (NO_DELAYS,) for c in conditions)
    assert [c.load.table is AT_ONCE for c in conditions] == [True] + [False] * 6


def test_the_same_condition_gives_the_same_episode_again() -> None:
    condition = chunk_conditions(quick=True)[1]
    assert condition.trial(3, 1) == condition.trial(3, 1)
    assert condition.trial(3, 1) != condition.trial(4, 1)


def test_rows_say_how_sure_they_are_and_keep_the_door_apart() -> None:
    condition = Condition(
        "N48_ours", 48, "paced", shared_tier(20, 1.6), admission="ours", turn_s=1.6
    )
    rows = {row.quantity: row for row in rows_of(condition, FOUND)}
    assert rows["success"].ours == 0.8
    assert "8 of 10; 95% interval 0.49 to 0.94" in rows["success"].note
    assert rows["success_time_p75"].ours is None
    assert rows["door_wait_p50"].ours == 60.0
    assert all(row.study is None for row in rows.values())
    assert "door_wait_p50" not in {
        row.quantity for row in rows_of(chunk_conditions(True)[0], FOUND)
    }


def test_the_table_says_never_where_a_quartile_never_succeeded() -> None:
    condition = chunk_conditions(quick=True)[0]
    lines = table([condition], {condition.name: FOUND})
    assert "8 of 10" in lines[1]
    assert "40 s (30-never)" in lines[1]
