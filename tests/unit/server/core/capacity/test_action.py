"""How many robots one policy replica keeps in chunks, under three disciplines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.core.batching.latency_table import STUDY_TABLE, LatencyRow, LatencyTable
from server.core.capacity import chunk_deadline_s, paced_by_arrival, paced_by_step, unpaced


def table(*rows: tuple[int, float]) -> LatencyTable:
    return LatencyTable(
        policy="p",
        device="d",
        dtype="float32",
        measured_on="test",
        num_warmups=0,
        num_runs=1,
        rows=tuple(LatencyRow(batch, seconds) for batch, seconds in rows),
    )


tables = st.lists(
    st.tuples(st.integers(1, 64), st.floats(0.001, 2.0)),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row[0],
).map(lambda rows: table(*sorted(rows)))
rates = st.floats(1.0, 200.0)


@pytest.mark.parametrize(("control_hz", "deadline_s"), [(20.0, 0.25), (10.0, 0.5), (5.0, 1.0)])
def test_the_deadline_of_a_chunk_is_five_steps(control_hz, deadline_s):
    assert chunk_deadline_s(control_hz) == deadline_s


def test_pacing_lifts_20_hz_from_one_robot_to_seven_on_the_study_s_table():
    assert unpaced(STUDY_TABLE, 20.0).robots == 1
    assert paced_by_arrival(STUDY_TABLE, 20.0).robots == 7
    assert paced_by_step(STUDY_TABLE, 20.0, 5, 10).robots == 7


def test_unpaced_gives_what_the_study_measured_at_10_hz():
    assert unpaced(STUDY_TABLE, 10.0).robots == 8
    assert paced_by_step(STUDY_TABLE, 10.0, 5, 10).robots == 25


def test_a_horizon_of_five_rows_leaves_nothing_of_a_batch_that_takes_five_steps():
    assert paced_by_step(STUDY_TABLE, 20.0, executed_steps=5, horizon=5).robots == 0
    assert paced_by_step(STUDY_TABLE, 20.0, executed_steps=5, horizon=5).batch_latency_s is None


def test_the_end_of_the_table_is_a_lower_bound_not_a_capacity():
    capacity = paced_by_arrival(table((1, 0.01), (4, 0.02)), 20.0)
    assert capacity.robots == 4
    assert capacity.is_at_least


def test_a_policy_slower_than_the_deadline_carries_nobody():
    slow = table((1, 0.3), (8, 0.4))
    for capacity in (unpaced(slow, 20.0), paced_by_arrival(slow, 20.0)):
        assert capacity.robots == 0
        assert not capacity.is_at_least


@given(tables, rates, st.integers(1, 20), st.integers(0, 40))
def test_every_paced_robot_meets_the_deadline_and_finds_its_rows(
    latencies, control_hz, executed_steps, spare_rows
):
    horizon = executed_steps + spare_rows
    capacity = paced_by_step(latencies, control_hz, executed_steps, horizon)
    for robots in range(1, capacity.robots + 1):
        age_s = latencies.latency_s(robots) + 0.010
        assert age_s <= executed_steps / control_hz + 1e-6
        assert age_s * control_hz <= spare_rows + 1e-6


@given(tables, rates, st.integers(1, 20))
def test_addressing_rows_by_step_never_carries_more_than_counting_from_arrival(
    latencies, control_hz, executed_steps
):
    by_arrival = paced_by_arrival(latencies, control_hz, executed_steps)
    by_step = paced_by_step(latencies, control_hz, executed_steps, horizon=2 * executed_steps)
    assert by_step.robots <= by_arrival.robots


@given(tables, st.floats(1.0, 200.0), st.floats(1.0, 200.0))
def test_a_slower_control_rate_never_carries_fewer_robots(latencies, one, other):
    slower, faster = sorted((one, other))
    assert paced_by_arrival(latencies, slower).robots >= paced_by_arrival(latencies, faster).robots


@pytest.mark.parametrize("control_hz", [0.0, -20.0, math.nan, math.inf, 1e9])
def test_a_control_rate_that_cannot_be_is_refused(control_hz):
    with pytest.raises(InvalidArgumentError, match="control rate"):
        paced_by_arrival(STUDY_TABLE, control_hz)


def test_a_horizon_shorter_than_the_executed_steps_is_refused():
    with pytest.raises(InvalidArgumentError, match="horizon"):
        paced_by_step(STUDY_TABLE, 20.0, executed_steps=5, horizon=4)
