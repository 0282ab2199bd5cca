from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.core.batching import StreamRate, Waiting
from server.core.batching.pacing import NOTICE_S, Pacer

RATE = StreamRate(20.0, executed_steps=5, horizon=10)
PERIOD_S = RATE.period_s


def observation(stream: int, step: int, arrived_s: float) -> Waiting[None]:
    return Waiting(stream, step, arrived_s, None, None, control_step=step, buffered_steps=5)


def arrive(pacer: Pacer, stream: int, step: int, arrived_s: float) -> Waiting[None]:
    item = observation(stream, step, arrived_s)
    pacer.arrived(item)
    return item


def locked(num_robots: int, rate: StreamRate = RATE) -> tuple[Pacer, float]:
    """Robots whose step 0 has come on the plan, and when that was."""
    pacer = Pacer()
    first_s = pacer.join(0, rate, 0.0)
    for stream in range(1, num_robots):
        assert pacer.join(stream, rate, 0.0) == pytest.approx(first_s)
    for stream in range(num_robots):
        arrive(pacer, stream, 0, first_s)
    return pacer, first_s


def test_the_first_robot_begins_after_a_short_notice() -> None:
    assert Pacer().join(0, RATE, 7.0) == pytest.approx(NOTICE_S)


def test_a_robot_that_joins_begins_with_a_planned_batch() -> None:
    pacer, first_s = locked(3)
    assert pacer.join(9, RATE, 1.0) == pytest.approx((first_s - 1.0) % 0.25)


@pytest.mark.parametrize("change", ["join", "leave"])
def test_robots_that_join_or_leave_do_not_move_the_others(change: str) -> None:
    pacer, _ = locked(3)
    before = [pacer.next_step(stream, 0.01, 0.2) for stream in (0, 1)]
    if change == "join":
        pacer.join(9, RATE, 0.1)
    else:
        pacer.leave(2)
    assert [pacer.next_step(stream, 0.01, 0.2) for stream in (0, 1)] == before == [5, 5]


def test_a_robot_that_comes_a_tick_late_gets_back_by_asking_a_tick_earlier() -> None:
    pacer, first_s = locked(3)
    arrive(pacer, 1, 6, first_s + 6 * PERIOD_S)
    assert pacer.next_step(1, 0.01, 0.2) == 10


def test_a_robot_within_the_tolerance_counts_as_on_the_plan() -> None:
    pacer = Pacer()
    first_s = pacer.join(0, RATE, 0.0)
    arrive(pacer, 0, 0, first_s)
    pacer.join(1, RATE, 0.0)
    arrive(pacer, 1, 0, first_s + 0.008)
    assert pacer.next_step(1, 0.009, 0.2) == 5
    assert pacer.next_step(1, 0.007, 0.2) == 4


def test_with_fewer_rows_to_spare_the_robot_is_asked_for_earlier() -> None:
    pacer, _ = locked(1)
    assert pacer.next_step(0, 0.01, 0.249) == 5
    assert (pacer.next_step(0, 0.01, 0.251) or 99) <= 4


def test_the_plan_follows_clocks_that_drift_together() -> None:
    pacer, first_s = locked(3)
    drift = 1.0005
    for cycle in range(1, 400):
        step = 5 * cycle
        items = [arrive(pacer, s, step, first_s + step * PERIOD_S * drift) for s in range(3)]
        pacer.started(items)
        assert pacer.next_step(0, 0.01, 0.2) == step + 5


def test_the_plan_moves_by_whole_ticks_with_a_batch_that_was_late_for_all() -> None:
    pacer, first_s = locked(3)
    items = [arrive(pacer, s, 6, first_s + 6 * PERIOD_S) for s in range(3)]
    pacer.started(items)
    assert [pacer.next_step(s, 0.01, 0.2) for s in range(3)] == [11, 11, 11]


def test_one_robot_that_comes_out_of_step_does_not_move_the_plan() -> None:
    pacer, first_s = locked(3)
    pacer.started([arrive(pacer, 0, 6, first_s + 6 * PERIOD_S)])
    assert pacer.next_step(1, 0.01, 0.2) == 5


def test_a_slow_robot_takes_part_in_every_fourth_batch_at_its_last_tick_before_it() -> None:
    pacer, first_s = locked(1)
    slow = StreamRate(5.0, executed_steps=5, horizon=10)
    pacer.join(1, slow, 0.0)
    arrive(pacer, 1, 0, first_s + 0.13)
    step = pacer.next_step(1, 0.01, 0.2)
    assert step is not None
    tick_s = pacer.tick_s(1, step)
    slot_s = [first_s + 0.25 * index for index in range(8)]
    assert any(at_s - 0.2 <= tick_s <= at_s + 0.01 for at_s in slot_s)


def test_jitter_is_seen_as_lateness_against_the_best_arrivals() -> None:
    pacer, first_s = locked(1)
    chance = random.Random(1)
    for cycle in range(1, 200):
        arrive(pacer, 0, 5 * cycle, first_s + cycle * 0.25 + chance.uniform(0.0, 0.01))
    assert 0.004 < pacer.jitter_s < 0.009


def test_robots_are_asked_to_begin_earlier_by_what_the_network_takes() -> None:
    pacer = Pacer()
    in_s = pacer.join(0, RATE, 0.0)
    for cycle in range(20):
        arrive(pacer, 0, 5 * cycle, in_s + 0.004 + cycle * 0.25)
        pacer.started([observation(0, 5 * cycle, in_s + 0.004 + cycle * 0.25)])
    now_s = in_s + 20 * 0.25 - 0.1
    assert pacer.join(1, RATE, now_s) == pytest.approx(0.1, abs=0.002)


def test_streams_that_were_never_opened_are_not_paced() -> None:
    pacer = Pacer()
    assert pacer.arrived(observation(3, 0, 1.0)) is None
    assert pacer.next_step(3, 0.01, 0.2) is None


@pytest.mark.parametrize("lag_s", [0.02, 0.2, 0.75, 30.0])
def test_a_simulation_that_waits_for_its_chunks_is_not_taken_for_a_bad_network(
    lag_s: float,
) -> None:
    pacer, first_s = locked(3)
    for cycle in range(1, 40):
        arrive(pacer, 0, 5 * cycle, first_s + cycle * (5 * PERIOD_S + lag_s))
    assert pacer.jitter_s <= PERIOD_S


@pytest.mark.parametrize("jump", [-100, 1000, 2**63])
def test_a_step_counter_that_jumps_begins_a_new_grid(jump: int) -> None:
    pacer, first_s = locked(1)
    for cycle in range(20):
        arrive(pacer, 0, 200 + 5 * cycle, first_s + (200 + 5 * cycle) * PERIOD_S)
    arrived_s = first_s + 320 * PERIOD_S
    arrive(pacer, 0, 295 + jump, arrived_s)

    assert pacer.tick_s(0, 295 + jump) == pytest.approx(arrived_s, abs=1e-6)
    assert pacer.next_step(0, 0.01, 0.2) == 300 + jump
    assert pacer.jitter_s <= PERIOD_S


_rates = st.builds(
    lambda hz, executed, extra: StreamRate(hz, executed, executed + extra),
    st.sampled_from([5.0, 10.0, 15.0, 20.0, 30.0]),
    st.integers(1, 25),
    st.integers(0, 25),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(_rates, min_size=1, max_size=6),
    st.floats(0.0, 1.0),
    st.integers(0, 50),
    st.floats(0.0, 0.5),
    st.floats(0.0, 0.05),
)
def test_no_robot_is_told_to_ask_later_than_its_rows_allow(
    rates: list[StreamRate], offset_s: float, step: int, latency_s: float, tolerance_s: float
) -> None:
    pacer = Pacer()
    for stream, rate in enumerate(rates):
        pacer.join(stream, rate, 0.0)
        arrive(pacer, stream, step, 1.0 + offset_s * stream)
    for stream, rate in enumerate(rates):
        next_step = pacer.next_step(stream, tolerance_s, latency_s)
        assert next_step is not None
        assert step < next_step <= step + rate.executed_steps
        rows_end_s = pacer.tick_s(stream, step + rate.horizon)
        chunk_s = pacer.tick_s(stream, next_step) + latency_s
        assert chunk_s <= rows_end_s + 1e-6 or next_step == step + 1


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 1000.0))
def test_the_step_from_a_time_is_the_first_one_that_arrives_no_earlier(
    step: int, in_s: float
) -> None:
    pacer = Pacer()
    first_s = pacer.join(0, RATE, 0.0)
    arrive(pacer, 0, step, first_s)
    time_s = first_s + in_s
    found = pacer.step_from(0, time_s)
    assert pacer.tick_s(0, found) >= time_s - 2e-9
    assert pacer.tick_s(0, found - 1) < time_s
