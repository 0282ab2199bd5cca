from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.core.batching import STUDY_TABLE
from server.core.batching.choice import Choice, Claim, Expected, Run, Wait

PERIOD_S = 0.05
TOLERANCE_S = 0.005


def claim(due_s: float) -> Claim:
    return Claim(due_s, PERIOD_S, 10)


def expected(eta_s: float, due_s: float) -> Expected:
    return Expected(eta_s, claim(due_s), PERIOD_S / 2)


def decide(
    due_s: list[float],
    coming: list[Expected] | None = None,
    *,
    now_s: float = 0.0,
    others_free_at_s: tuple[float, ...] = (),
    max_batch: int = 64,
    spare_s: float = 0.0,
) -> Run | Wait:
    return Choice(
        now_s=now_s,
        claims=[claim(at_s) for at_s in due_s],
        expected=coming or [],
        others_free_at_s=others_free_at_s,
        latency_s=STUDY_TABLE.latency_s,
        max_batch=max_batch,
        tolerance_s=TOLERANCE_S,
        spare_s=spare_s,
    ).decide()


def test_those_that_wait_run_at_once_when_nobody_else_is_expected() -> None:
    assert decide([0.25] * 3) == Run(3)


def test_the_batch_is_the_largest_that_is_done_by_the_earliest_due_time() -> None:
    # 0.2 s are enough for four; the others have time for a batch of their own.
    assert decide([0.2, *[0.9] * 6]) == Run(4)


def test_robots_about_to_arrive_are_waited_for_until_the_latest_start_of_the_batch() -> None:
    decision = decide([0.25], [expected(0.002, 0.252)] * 6)
    assert decision == Wait(pytest.approx(0.25 - STUDY_TABLE.latency_s(7)), costs_steps=False)


def test_time_is_spared_for_a_slow_way_back_only_as_long_as_nobody_pays_for_it() -> None:
    due_s = STUDY_TABLE.latency_s(7) + 0.002
    later = [expected(0.25, 0.5)] * 6
    # With 3 ms to spare seven are too many; but who is left out would starve for certain.
    assert decide([due_s] * 7, later, spare_s=0.003) == Run(7)
    assert decide([due_s, *[0.9] * 6], spare_s=0.003) == Run(6)


def test_nobody_is_waited_for_into_the_time_to_spare() -> None:
    decision = decide([0.25], [expected(0.002, 0.252)] * 6, spare_s=0.004)
    assert decision == Wait(pytest.approx(0.246 - STUDY_TABLE.latency_s(7)), costs_steps=False)


def test_nobody_is_waited_for_whose_batch_would_come_too_late_for_the_first() -> None:
    assert decide([0.25], [expected(0.085, 0.335)]) == Run(1)


def test_no_wait_is_longer_than_the_time_it_spares_the_worker() -> None:
    assert decide([5.0], [expected(0.5, 5.5)]) == Run(1)
    assert isinstance(decide([5.0], [expected(0.1, 5.1)]), Wait)


def test_a_robot_that_does_not_come_is_given_up_at_the_latest_start() -> None:
    latest_s = 0.25 - STUDY_TABLE.latency_s(7)
    missing = [expected(0.0, 0.25)]
    assert decide([0.25] * 6, missing, now_s=latest_s - 1e-3) == Wait(
        pytest.approx(latest_s), costs_steps=False
    )
    assert decide([0.25] * 6, missing, now_s=latest_s) == Run(6)


def test_a_slow_robot_does_not_delay_the_batch_of_the_others() -> None:
    # It is 20 ms overdue; with it the batch would be late for all six.
    assert decide([0.25] * 6, [expected(0.0, 0.25)], now_s=0.02) == Run(6)


def test_a_robot_out_of_step_waits_rather_than_delay_the_next_common_batch() -> None:
    group = [expected(0.02, 0.27)] * 6
    assert isinstance(decide([0.05], group), Wait)


def test_a_robot_out_of_step_uses_a_gap_between_two_common_batches() -> None:
    group = [expected(0.2, 0.45)] * 3
    assert decide([0.05], group) == Run(1)


def test_free_workers_share_those_that_wait() -> None:
    assert decide([0.25] * 14, others_free_at_s=(0.0,)) == Run(7)
    assert decide([2.0] * 14, others_free_at_s=(9.0,)) == Run(14)


def test_a_worker_starts_as_soon_as_its_share_is_there() -> None:
    coming = [expected(0.001, 0.251)] * 7
    assert decide([0.25] * 7, coming, others_free_at_s=(0.0,)) == Run(7)


def test_a_millisecond_of_the_first_is_not_worth_a_cycle_of_another() -> None:
    # Four together are 3 ms late for the first; leaving one out costs that one three steps.
    assert decide([0.195, 0.25, 0.25, 0.25]) == Run(4)


def test_more_robots_than_a_batch_holds_are_expected_without_asking_what_such_a_batch_takes() -> (
    None
):
    coming = [expected(0.001, 2.0)] * 96
    assert isinstance(decide([2.0], coming, others_free_at_s=(0.0,)), Wait)


def test_where_all_cannot_be_in_time_the_fewest_late_steps_win() -> None:
    # Seven in time and seven 5 steps late are worse than fourteen 2 steps late.
    assert decide([0.25] * 14) == Run(14)
    # Seven in time and one 2 steps late are better than seven 1 step late and one in time.
    assert decide([0.245] * 7 + [0.3]) == Run(7)


def test_a_step_of_every_robot_is_better_than_a_stop_of_one() -> None:
    # Seven in time and one 4 steps late, or all eight 1 step late.
    assert decide([0.245] * 8) == Run(8)


def test_those_that_are_late_already_fill_what_room_is_left() -> None:
    assert decide([0.25, 0.25, -1.0]) == Run(3)


def test_steps_late_count_from_the_due_time_and_no_chunk_is_later_than_its_rows() -> None:
    assert [claim(1.0).late_steps(end_s) for end_s in (1.0, 1.01, 1.05, 1.0501, 99.0)] == [
        0,
        1,
        1,
        2,
        10,
    ]


_dues = st.lists(st.floats(0.0, 2.0), min_size=1, max_size=20)
_coming = st.lists(st.tuples(st.floats(-0.1, 1.0), st.floats(0.0, 1.0)), max_size=20)


@settings(max_examples=150, deadline=None)
@given(_dues, _coming, st.lists(st.floats(0.0, 0.5), max_size=2), st.integers(1, 16))
def test_a_decision_is_a_batch_that_fits_or_a_wait_that_ends(
    due_s: list[float],
    coming: list[tuple[float, float]],
    others_free_at_s: list[float],
    max_batch: int,
) -> None:
    due_s = sorted(due_s, key=lambda at_s: (at_s < STUDY_TABLE.latency_s(1), at_s))
    decision = decide(
        due_s,
        [expected(eta_s, eta_s + spare_s) for eta_s, spare_s in coming],
        others_free_at_s=tuple(others_free_at_s),
        max_batch=max_batch,
    )
    if isinstance(decision, Run):
        assert 1 <= decision.size <= min(len(due_s), max_batch)
    else:
        assert 0.0 < decision.until_s < math.inf
        if not decision.costs_steps:
            alone_s = STUDY_TABLE.latency_s(1)
            in_time = [at_s for at_s in due_s if at_s >= alone_s]
            assert all(decision.until_s <= at_s - alone_s + 1e-3 for at_s in in_time[:1])


@settings(max_examples=150, deadline=None)
@given(_dues, st.integers(1, 16))
def test_with_nobody_expected_a_batch_runs_at_once_and_meets_the_earliest_due_time_if_leaving_out(
    due_s: list[float], max_batch: int
) -> None:
    alone_s = STUDY_TABLE.latency_s(1)
    due_s = sorted(due_s, key=lambda at_s: (at_s < alone_s, at_s))
    decision = decide(due_s, max_batch=max_batch)
    assert isinstance(decision, Run)
    in_time = [at_s for at_s in due_s if at_s >= alone_s]
    if in_time and decision.size < min(len(due_s), max_batch):
        assert STUDY_TABLE.latency_s(decision.size) <= in_time[0] + 1e-9


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40))
def test_if_one_batch_of_all_is_in_time_for_all_it_runs(spare_s: list[float]) -> None:
    together_s = STUDY_TABLE.latency_s(len(spare_s))
    due_s = sorted(together_s + spare for spare in spare_s)
    assert decide(due_s) == Run(len(due_s))
