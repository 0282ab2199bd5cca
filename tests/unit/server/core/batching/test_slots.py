from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.batching import StreamRate
from server.core.batching.slots import SlotPlan, fullest_batch


def rate(control_hz: float) -> StreamRate:
    return StreamRate(control_hz, executed_steps=5, horizon=10)


def plan_of(*rates_hz: float) -> SlotPlan:
    plan = SlotPlan()
    for stream, control_hz in enumerate(rates_hz):
        plan.add(stream, rate(control_hz))
    return plan


def test_streams_of_one_rate_share_every_batch() -> None:
    plan = plan_of(20, 20, 20)
    assert (plan.base_s, plan.cycle_s, plan.loads) == (0.25, 0.25, (3,))


def test_slower_streams_take_turns_so_that_no_batch_is_much_fuller() -> None:
    plan = plan_of(20, *[5] * 9)
    assert plan.cycle_s == 1.0
    assert sorted(plan.loads) == [3, 3, 3, 4]


def test_a_rate_that_is_no_multiple_comes_too_often_rather_than_too_late() -> None:
    plan = plan_of(20, 15)
    assert plan.slot(1).every * 0.25 <= rate(15).cycle_s


def test_a_faster_stream_sets_a_new_base_for_all() -> None:
    plan = plan_of(10, 10)
    plan.add(2, rate(20))
    assert (plan.base_s, plan.loads) == (0.25, (2, 2))


def test_the_pattern_stays_short_however_far_rates_lie_apart() -> None:
    # The ratio of these two cycles is two thousand million.
    plan = SlotPlan()
    plan.add(0, StreamRate(1e4, 1, 1))
    plan.add(1, StreamRate(1e-3, 200, 400))
    assert len(plan.loads) <= 256


def test_an_empty_plan_has_no_base() -> None:
    plan = plan_of(20)
    plan.remove(0)
    assert (plan.base_s, plan.cycle_s, plan.loads) == (None, None, ())


@pytest.mark.parametrize("steps", [(5, 10), (5, 5), (1, 1), (10, 50), (50, 50)])
def test_the_rows_of_a_chunk_last_for_two_cycles(steps: tuple[int, int]) -> None:
    cycle_steps = StreamRate(20, *steps).cycle_steps
    assert cycle_steps == 1 or 2 * cycle_steps <= steps[1]
    assert cycle_steps <= steps[0]


@pytest.mark.parametrize(
    ("control_hz", "executed", "horizon", "named"),
    [
        (0, 5, 10, "control_hz is 0"),
        (float("nan"), 5, 10, "control_hz is nan"),
        (1e-310, 5, 10, "control_hz is 1e-310; allowed: 0.001 to 10000"),
        (1e308, 5, 10, "control_hz is 1e\\+308"),
        (20, 0, 10, "executed_steps is 0"),
        (20, 11, 10, "allowed: 1 to the horizon"),
    ],
)
def test_a_rate_that_cannot_be_is_refused(
    control_hz: float, executed: int, horizon: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        StreamRate(control_hz, executed, horizon)


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 7), st.sampled_from([2.5, 5, 7, 10, 15, 20])),
        st.tuples(st.just("remove"), st.integers(0, 7), st.just(0.0)),
    ),
    max_size=30,
)


@given(_steps)
def test_every_stream_comes_often_enough_and_batches_stay_as_even_as_when_packed_anew(
    steps: list[tuple[str, int, float]],
) -> None:
    plan, present = SlotPlan(), {}
    for kind, stream, control_hz in steps:
        if kind == "add" and stream not in present:
            present[stream] = rate(control_hz)
            plan.add(stream, present[stream])
        elif kind == "remove":
            present.pop(stream, None)
            plan.remove(stream)
        base_s = plan.base_s or 0.0
        assert base_s == min((r.cycle_s for r in present.values()), default=0.0)
        for known, its_rate in present.items():
            assert plan.slot(known).every * base_s <= its_rate.cycle_s + 1e-9
        assert max(plan.loads, default=0) <= fullest_batch(present.values())
        counted = [
            sum(plan.slot(s).first_from(index) == index for s in present)
            for index in range(len(plan.loads))
        ]
        assert tuple(counted) == plan.loads


@given(st.lists(st.sampled_from([5.0, 10.0, 20.0]), min_size=1, max_size=12), st.data())
def test_a_robot_that_leaves_does_not_move_others_unless_the_fullest_batch_shrinks(
    rates_hz: list[float], data: st.DataObject
) -> None:
    plan = plan_of(*rates_hz)
    gone = data.draw(st.integers(0, len(rates_hz) - 1))
    base_s, fullest = plan.base_s, max(plan.loads)
    before = {s: plan.slot(s) for s in range(len(rates_hz)) if s != gone}
    plan.remove(gone)
    after = {s: plan.slot(s) for s in before}
    if plan.base_s == base_s and max(plan.loads, default=0) == fullest:
        assert after == before
