from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.latency_window import LatencyWindow
from robot_sdk.request_timing import MAX_RETRY_PAUSE_S, Request, RequestTiming


def _timing(known_latency_s: float | None = None, **options) -> RequestTiming:
    latencies = LatencyWindow()
    if known_latency_s is not None:
        latencies.add(known_latency_s)
    defaults = {"horizon": 10, "executed_steps": 5, "control_hz": 20.0, "margin_steps": 0}
    return RequestTiming(**{**defaults, "latencies": latencies, **options})


def _answered_at_step_zero(timing: RequestTiming, hint_s: float | None = None) -> RequestTiming:
    timing.sent(0, 0, 0.0)
    timing.answered(0, 0.1, hint_s)
    return timing


def test_first_observation_is_due_at_once():
    assert _timing().is_due(17, 3.0)


def test_unknown_latency_asks_at_the_next_tick():
    timing = _answered_at_step_zero(_timing())
    assert timing.lead_steps is None
    assert timing.next_step == 1


def test_unknown_latency_leaves_the_next_observation_to_a_server_that_has_a_wish():
    timing = _answered_at_step_zero(_timing(), hint_s=0.05)
    assert next(step for step in range(1, 6) if timing.is_due(step, step * 0.05)) == 3


def test_server_that_paces_is_followed_although_latencies_here_ask_for_earlier():
    timing = _answered_at_step_zero(_timing(0.4), hint_s=0.1)
    assert next(step for step in range(1, 6) if timing.is_due(step, step * 0.05)) == 4


def test_unknown_latency_never_waits_for_a_wish_beyond_the_executed_rows():
    timing = _answered_at_step_zero(_timing(), hint_s=60.0)
    assert timing.next_step == 5


@pytest.mark.parametrize(
    ("latency_s", "next_step"),
    [(0.0, 5), (0.25, 5), (0.3, 4), (0.301, 3), (0.4, 2), (0.45, 1), (0.5, 1), (3.0, 1)],
)
def test_next_step_leaves_the_expected_latency_before_the_rows_end(latency_s, next_step):
    assert _answered_at_step_zero(_timing(latency_s)).next_step == next_step


def test_margin_asks_one_step_earlier():
    assert _answered_at_step_zero(_timing(0.3, margin_steps=1)).next_step == 3


def test_first_answer_of_a_stream_is_warm_up_and_not_counted():
    timing = _timing()
    timing.sent(0, 0, 0.0)
    timing.answered(0, 4.0)
    assert timing.lead_steps is None
    timing.sent(1, 1, 4.0)
    timing.answered(1, 4.1)
    assert timing.lead_steps == 2


def test_known_latencies_survive_a_new_stream_and_its_warm_up():
    timing = _timing(0.1)
    timing.start("realtime")
    timing.sent(0, 0, 0.0)
    timing.answered(0, 4.0)
    assert timing.lead_steps == 2


def test_at_most_one_observation_is_in_flight():
    timing = _timing()
    timing.sent(0, 0, 0.0)
    assert not timing.is_due(5, 0.2)
    with pytest.raises(InvalidArgumentError):
        timing.sent(1, 5, 0.2)


def test_answer_nobody_waits_for_is_ignored():
    timing = _timing()
    timing.sent(3, 0, 0.0)
    assert timing.answered(2, 0.1) is None
    assert timing.failed(2, 0.1) is None
    assert timing.in_flight == Request(3, 0, 0.0)


def test_a4_overdue_answer_is_given_up_and_a_fresh_observation_is_due_at_once():
    timing = _timing(deadline_s=1.0)
    timing.sent(0, 0, 0.0)
    assert timing.give_up_overdue(0.95) is None
    assert timing.give_up_overdue(1.0) == Request(0, 0, 0.0)
    assert timing.is_due(20, 1.0)
    timing.sent(1, 20, 1.0)
    assert timing.answered(1, 1.1) == Request(1, 20, 1.0)


def test_default_deadline_is_the_time_after_which_no_row_is_valid():
    timing = _timing()
    assert timing.deadline_s == 0.5
    timing.start("lockstep")
    assert timing.deadline_s is None


def test_server_wish_moves_the_next_observation_earlier():
    timing = _answered_at_step_zero(_timing(0.1), hint_s=0.05)
    assert not timing.is_due(2, 0.14)
    assert timing.is_due(3, 0.15)


def test_server_wish_never_moves_it_later():
    timing = _answered_at_step_zero(_timing(0.1), hint_s=60.0)
    assert timing.is_due(5, 0.25)


def test_server_wish_does_not_repeat_a_step():
    timing = _answered_at_step_zero(_timing(0.1), hint_s=-1.0)
    assert not timing.is_due(0, 0.1)


@pytest.mark.parametrize("hint_s", [float("nan"), float("inf"), float("-inf")])
def test_server_wish_that_is_no_number_is_ignored(hint_s):
    timing = _answered_at_step_zero(_timing(0.1), hint_s=hint_s)
    assert [timing.is_due(step, 0.2) for step in (4, 5)] == [False, True]


def test_lockstep_asks_exactly_after_the_executed_steps():
    timing = _timing(0.4)
    timing.start("lockstep")
    _answered_at_step_zero(timing, hint_s=0.0)
    assert [timing.is_due(step, 9.0) for step in (1, 4, 5)] == [False, False, True]


def test_first_failure_is_asked_again_at_once_and_later_ones_after_growing_pauses():
    timing, now_s, pauses_s = _timing(), 0.0, []
    for sequence in range(7):
        timing.sent(sequence, 0, now_s)
        timing.failed(sequence, now_s)
        pause_s = next(p for p in (0, 0.1, 0.2, 0.4, 0.8, 1.0) if timing.is_due(0, now_s + p))
        pauses_s.append(pause_s)
        now_s += pause_s
    assert pauses_s == [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert max(pauses_s) == MAX_RETRY_PAUSE_S


def test_pause_that_the_server_names_is_kept():
    timing = _timing()
    timing.sent(0, 0, 0.0)
    timing.failed(0, 0.0, retry_after_s=3.0)
    assert not timing.is_due(1, 2.9)
    assert timing.is_due(1, 3.0)


def test_one_answer_ends_the_growing_pauses():
    timing = _timing()
    for sequence in range(4):
        timing.sent(sequence, 0, 0.0)
        timing.failed(sequence, 0.0)
    timing.sent(4, 0, 9.0)
    timing.answered(4, 9.1)
    timing.sent(5, 1, 9.1)
    timing.failed(5, 9.2)
    assert timing.is_due(2, 9.2)


def test_thousand_failures_in_a_row_keep_the_pause_bounded():
    timing = _timing()
    for sequence in range(2000):
        timing.sent(sequence, 0, 0.0)
        timing.failed(sequence, 0.0)
    assert timing.is_due(1, MAX_RETRY_PAUSE_S)


@pytest.mark.parametrize(
    "options",
    [
        {"executed_steps": 0},
        {"executed_steps": 11},
        {"control_hz": 0.0},
        {"control_hz": float("nan")},
        {"deadline_s": 0.0},
        {"deadline_s": float("nan")},
    ],
)
def test_impossible_settings_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        _timing(**options)


@given(
    horizon=st.integers(1, 60),
    data=st.data(),
    latency_s=st.floats(0, 10),
    control_hz=st.floats(1, 100),
)
@settings(deadline=None)
def test_next_step_always_advances_and_never_passes_the_executed_steps(
    horizon, data, latency_s, control_hz
):
    executed_steps = data.draw(st.integers(1, horizon))
    timing = _timing(
        latency_s, horizon=horizon, executed_steps=executed_steps, control_hz=control_hz
    )
    timing.sent(0, 100, 0.0)
    timing.answered(0, latency_s)
    assert 101 <= timing.next_step <= 100 + executed_steps


def test_first_observation_waits_for_the_server_wish_and_no_longer():
    timing = _timing()
    timing.start("realtime", now_s=1.0, first_observation_s=1.15)
    due = [timing.is_due(step, 1.0 + step / 20) for step in range(5)]
    assert due == [False, False, False, True, True]


@pytest.mark.parametrize("wish_s", [0.3, 1.0, 1.2501, 9.0, float("nan")])
def test_first_observation_does_not_wait_for_a_wish_that_is_over_or_too_far_off(wish_s):
    timing = _timing()
    timing.start("realtime", now_s=1.0, first_observation_s=wish_s)
    assert timing.is_due(0, 1.0)


def test_lockstep_does_not_wait_for_the_first_wish():
    timing = _timing()
    timing.start("lockstep", now_s=1.0, first_observation_s=1.2)
    assert timing.is_due(0, 1.0)


@pytest.mark.parametrize(("latency_s", "steps"), [(None, 1), (0.0, 1), (0.05, 1), (0.12, 3)])
def test_rows_of_the_expected_latency_are_committed(latency_s, steps):
    assert _timing(latency_s).committed_steps == steps


def test_lockstep_commits_to_nothing_while_it_waits():
    timing = _timing(0.3)
    timing.start("lockstep")
    assert timing.committed_steps == 0
