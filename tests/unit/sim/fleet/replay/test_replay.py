from __future__ import annotations

from collections import Counter

import pytest

from server.core.admission import AdmissionPolicy, FleetView, StaticCapAdmission
from server.core.admission.interface import AdmissionDecision
from sim.fleet.replay.replay import warnings_of
from sim.fleet.replay.settings import ActionChoice, AdmissionChoice, FleetPoint, ReplaySettings
from tests.unit.sim.fleet.replay.conftest import ENGINE, Played, trace

# An episode of `trace()`: three turns of 1 s with 1 s between them, so 5 s.
EPISODE_S = 5.0


def sustained(num_robots: int, duration_s: float = 100.0, **others: object) -> ReplaySettings:
    return ReplaySettings.sustained(
        num_robots, **{"engine": ENGINE, "duration_s": duration_s, "warm_up_s": 0.0, **others}
    )


def test_a_robot_takes_one_episode_after_the_other_and_waits_between_turns() -> None:
    played = Played(sustained(1))
    times_s = [when_s for when_s, _ in played.brain.submitted[:6]]
    assert times_s == [0.0, 2.0, 4.0, 5.0, 7.0, 9.0]
    assert played.result.episodes_completed == 20
    assert played.result.rps == pytest.approx(0.6)
    assert played.result.episodes_per_min == pytest.approx(12.0)


def test_a_turns_prompt_is_the_whole_conversation_so_far() -> None:
    played = Played(sustained(1, EPISODE_S))
    turns = [turn for _, turn in played.brain.submitted[:3]]
    assert [turn.num_prompt_tokens for turn in turns] == [250, 550, 850]
    assert len({id(turn.blocks) for turn in turns}) == 1


def test_another_episode_shares_no_blocks_with_the_one_before() -> None:
    played = Played(sustained(2, 20.0))
    by_episode = Counter(id(turn.blocks) for _, turn in played.brain.submitted)
    assert max(by_episode.values()) == 3


def test_computed_tokens_and_hits_are_what_the_servers_ledger_counts() -> None:
    result = Played(sustained(1, EPISODE_S)).result
    # Second prompt: 299 of 300 tokens can be cached, so 2 blocks; third: 599 of 600, so 5.
    assert result.computed_prompt_tokens_per_min == (250 + 350 + 350) * 12
    assert result.generated_tokens_per_min == 150 * 12
    assert result.hit == 1.0


def test_a_lost_prefix_is_a_miss_and_first_turns_are_not_counted() -> None:
    result = Played(sustained(1), keeps=lambda now_s: now_s < 50.0).result
    assert result.hit == pytest.approx(0.5)
    assert result.windows[0].hit == pytest.approx(0.5)
    assert result.first_low_hit_s == 100.0


def test_the_first_low_window_is_told_by_its_end() -> None:
    result = Played(sustained(1, 600.0), keeps=lambda now_s: now_s < 239.0).result
    assert [window.hit for window in result.windows] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert result.first_low_hit_s == 360.0


def test_the_warm_up_is_left_out_of_what_is_said_to_be_after_it() -> None:
    settings = sustained(1, 600.0, warm_up_s=240.0)
    result = Played(settings, keeps=lambda now_s: now_s >= 239.0).result
    assert result.hit is not None
    assert result.hit < 0.7
    assert result.hit_after_warm_up == 1.0
    assert result.lowest_window_hit_after_warm_up == 1.0


def test_no_more_than_the_cap_are_inside_and_everybody_gets_a_turn_at_the_door() -> None:
    result = Played(sustained(4), policy=StaticCapAdmission(2)).result
    assert {window.num_active for window in result.windows} == {2}
    assert result.episodes_by_robot == (10, 10, 10, 10)
    assert result.jain == 1.0
    assert result.door_wait_s["max"] == EPISODE_S


def test_windows_add_up_to_the_run() -> None:
    result = Played(sustained(3, 500.0)).result
    assert [window.end_s for window in result.windows] == [120.0, 240.0, 360.0, 480.0, 500.0]
    assert sum(window.turns for window in result.windows) == result.turns
    assert sum(window.episodes for window in result.windows) == result.episodes_completed
    generated = sum(window.generated_tokens for window in result.windows)
    assert generated == pytest.approx(result.generated_tokens_per_min * 500 / 60)


def test_a_finite_batch_ends_when_its_last_robot_has_left() -> None:
    result = Played(sustained(3, 1000.0, episodes_per_robot=2)).result
    assert result.episodes_completed == 6
    assert result.duration_s == pytest.approx(2 * EPISODE_S, abs=1.0)
    assert not result.is_partial


def test_robots_that_are_too_many_leave_after_their_episode_or_at_once_from_the_door() -> None:
    fleet = (FleetPoint(0.0, 4), FleetPoint(7.0, 1))
    settings = ReplaySettings(fleet, engine=ENGINE, duration_s=40.0, warm_up_s=0.0)
    result = Played(settings, policy=StaticCapAdmission(2)).result
    # Two inside until 5 s, two more until 10 s; those of 0 and 1 that wait at 7 s: 1 leaves.
    assert result.episodes_by_robot == (7, 1, 1, 1)
    assert result.windows[-1].num_active == 1


def test_robots_that_are_cut_off_leave_after_their_turn_and_complete_nothing() -> None:
    fleet = (FleetPoint(0.0, 2), FleetPoint(2.5, 1, cuts_off=True))
    settings = ReplaySettings(fleet, engine=ENGINE, duration_s=20.0)
    played = Played(settings)
    # The second robot's turn of 2 s is on; it is answered at 3 s and no other follows.
    assert [when_s for when_s, turn in played.brain.submitted if turn.name.startswith("1-")] == [
        0.0,
        2.0,
    ]
    assert played.result.episodes_by_robot == (4, 0)
    assert [times.is_complete for times in played.result.episode_times][1] is False


def test_a_robot_between_two_turns_is_cut_off_at_once() -> None:
    fleet = (FleetPoint(0.0, 1), FleetPoint(1.5, 0, cuts_off=True))
    played = Played(ReplaySettings(fleet, engine=ENGINE, duration_s=20.0))
    assert len(played.brain.submitted) == 1
    assert played.result.windows[-1].num_active == 0


def test_robots_join_over_time() -> None:
    fleet = (FleetPoint(0.0, 0), FleetPoint(10.0, 1), FleetPoint(20.0, 2))
    played = Played(ReplaySettings(fleet, engine=ENGINE, duration_s=30.0))
    assert played.brain.submitted[0][0] == 10.0
    assert played.result.episodes_by_robot == (4, 2)


def test_a_round_trip_is_part_of_every_turn() -> None:
    result = Played(sustained(1, 60.0, round_trip_s=0.5)).result
    assert result.brain_latency_s["p50"] == pytest.approx(1.5)
    assert result.episodes_completed == 9  # 3 turns of 1.5 s and two intervals: 6.5 s


def test_the_wall_clock_is_waited_for_where_it_is_asked_for_and_known() -> None:
    settings = sustained(1, 40.0)
    wall = ReplaySettings.from_json(
        {**settings.to_json(), "workload": {"mix": "all", "order": "shuffled", "gap": "wall"}}
    )
    traces = [trace(wall_gap_s=3.5)]
    assert Played(settings, traces).brain.submitted[1][0] == 2.0
    assert Played(wall, traces).brain.submitted[1][0] == 4.5
    assert Played(wall, [trace()]).brain.submitted[1][0] == 2.0


def test_episodes_keep_their_times_as_their_robots_saw_them() -> None:
    result = Played(sustained(2, 12.0), policy=StaticCapAdmission(1)).result
    first, second, third = result.episode_times
    assert (first.asked_s, first.door_wait_s, first.is_complete) == (0.0, 0.0, True)
    assert (second.asked_s, second.door_wait_s) == (0.0, 5.0)
    assert first.turn_latencies_s == (1.0, 1.0, 1.0)
    assert not third.is_complete


def test_a_compaction_keeps_the_blocks_before_it_and_is_no_miss() -> None:
    turns = [trace(1), trace(1)]
    compacted = trace(1, kept_tokens=100).turns[0]
    one = trace(3)
    cut = type(one)("c", "family", (*one.turns[:2], compacted))
    played = Played(sustained(1, EPISODE_S), [cut, *turns])
    prompts = [turn.num_prompt_tokens for _, turn in played.brain.submitted[:3]]
    assert prompts == [250, 550, 350]
    assert played.result.hit == 1.0
    assert played.result.turns == 3


def test_every_robot_keeps_its_lease_through_a_long_turn() -> None:
    result = Played(sustained(1, 120.0), turn_s=30.0).result
    assert result.episodes_completed == 1


def test_an_interrupted_run_keeps_what_was_there() -> None:
    def stop(now_s: float) -> None:
        if now_s >= 50.0:
            raise KeyboardInterrupt

    result = Played(sustained(1, 100.0), on_progress=stop).result
    assert result.is_partial
    assert result.duration_s == 50.0
    assert result.episodes_completed == 10


def test_the_policy_is_told_the_pool_that_the_settings_say() -> None:
    told = []

    class Listening(AdmissionPolicy):
        name = "listening"

        def decide(self, view: FleetView) -> AdmissionDecision:
            told.append(view.engine.pool_blocks)
            return AdmissionDecision(len(view.waiting))

    choice = AdmissionChoice(told_pool_share=1.3)
    Played(sustained(1, 10.0, admission=choice), policy=Listening())
    assert set(told) == {1300}


def test_a_held_turn_waits_and_then_starts() -> None:
    class Holding(StaticCapAdmission):
        holds_turns = True

        def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
            return 0.5 if view.now_s < 3.0 else 0.0

    played = Played(sustained(1, 20.0), policy=Holding(1))
    assert played.brain.submitted[0][0] == 3.0
    assert played.result.controls["held_turns"] == 1
    assert played.result.episode_times[0].turn_latencies_s[0] == 4.0


def test_a_run_that_is_too_short_to_mean_anything_says_so() -> None:
    short, long = sustained(1, 300.0), sustained(1, 1000.0)
    slow = [trace(100, env_steps=100)]  # 595 s with turns of 1 s
    assert "smoke test" in warnings_of(short, [trace()], Played(short).result)[0]
    assert warnings_of(long, [trace()], Played(long).result) == ()
    assert "slowest episode takes 595 s" in warnings_of(long, slow, Played(long).result)[0]
    batch = sustained(1, 300.0, episodes_per_robot=1)
    assert warnings_of(batch, [trace()], Played(batch).result) == ()


def test_equal_settings_and_seeds_give_equal_results() -> None:
    settings = sustained(5, 300.0)
    results = [Played(settings, policy=StaticCapAdmission(3)).result for _ in range(2)]
    assert results[0] == results[1]


def test_policies_run_on_an_action_tier_beside_the_brain() -> None:
    traces = [trace(chunks=2, env_steps=20)]
    beside = Played(sustained(1, action=ActionChoice()), traces).result
    alone = Played(sustained(1), traces).result
    assert beside.starved_fraction_worst == 0.0
    assert beside.starved_fraction == 0.0
    # Twice in an episode of some 5 s, 10 steps at 20 Hz after the first chunk's 160 ms.
    assert beside.policy_share == pytest.approx(2 * 0.66 / 5.3, abs=0.05)
    assert 0.9 * alone.episodes_completed <= beside.episodes_completed < alone.episodes_completed
    assert alone.starved_fraction_worst is None
    assert alone.policy_share is None
