from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.tick_grid import TickGrid


def test_deadlines_do_not_drift():
    grid = TickGrid(5.0, 20.0)
    assert grid.deadline_s(72_000) == 5.0 + 3600.0


def test_tick_up_to_half_a_period_late_is_run():
    grid = TickGrid(0.0, 20.0)
    assert grid.next_index(4, 0.224, None) == 4


def test_tick_more_than_half_a_period_late_is_skipped():
    grid = TickGrid(0.0, 20.0)
    assert grid.next_index(4, 0.226, None) == 5


def test_long_stall_skips_to_the_present_and_keeps_the_phase():
    grid = TickGrid(1.0, 20.0)
    index = grid.next_index(10, 4.51, None)
    assert index == 70
    assert grid.deadline_s(index) == 4.5


def test_command_that_fell_into_a_later_period_uses_that_period_up():
    grid = TickGrid(0.0, 20.0)
    assert grid.next_index(1, 0.07, 0.07) == 2


def test_index_is_not_looked_for_before_the_given_one():
    assert TickGrid(0.0, 20.0).next_index(9, 0.0, None) == 9


@pytest.mark.parametrize("control_hz", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_rate_is_refused(control_hz):
    with pytest.raises(InvalidArgumentError):
        TickGrid(0.0, control_hz)


@given(
    start_s=st.floats(-1e6, 1e6),
    control_hz=st.floats(0.5, 1000),
    index=st.integers(0, 10**6),
    stall_s=st.floats(-1, 1e4),
)
@settings(deadline=None)
def test_next_index_is_the_first_that_is_not_too_late(start_s, control_hz, index, stall_s):
    grid = TickGrid(start_s, control_hz)
    now_s = grid.deadline_s(index) + stall_s
    found = grid.next_index(index, now_s, None)
    earliest_s = now_s - grid.period_s / 2
    assert grid.deadline_s(found) >= earliest_s
    assert found == index or grid.deadline_s(found - 1) < earliest_s


@given(
    phase_s=st.floats(-1e4, 1e4),
    control_hz=st.floats(0.5, 1000),
    index=st.integers(0, 10**5),
)
@settings(deadline=None)
def test_delay_to_a_phase_is_below_one_period_and_puts_a_deadline_on_it(phase_s, control_hz, index):
    grid = TickGrid(3.0, control_hz)
    before_s = grid.deadline_s(index)
    delay_s = grid.delay_to_phase_s(index, phase_s)
    grid.delay(delay_s)
    assert 0.0 <= delay_s < grid.period_s
    assert grid.deadline_s(index) == pytest.approx(before_s + delay_s)
    off_s = (phase_s - grid.deadline_s(index)) % grid.period_s
    assert min(off_s, grid.period_s - off_s) < 6e-4


def test_grid_within_half_a_millisecond_of_the_phase_stays():
    assert TickGrid(0.0, 20.0).delay_to_phase_s(3, 7.0 - 4e-4) == 0.0


@pytest.mark.parametrize("delay_s", [-0.001, 0.05, float("nan")])
def test_grid_never_moves_earlier_nor_by_a_whole_period(delay_s):
    with pytest.raises(InvalidArgumentError, match="delay_s"):
        TickGrid(0.0, 20.0).delay(delay_s)
