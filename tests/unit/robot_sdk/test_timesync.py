"""The clock offset and its bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.timesync import MAX_DRIFT, ClockExchange, ClockFilter, offset_of

delays_s = st.floats(0.0, 1.0)


def exchange(sent_s=0.0, offset_s=0.0, out_s=0.01, there_s=0.0, back_s=0.01, boot_id="a"):
    received_s = sent_s + out_s
    return ClockExchange(
        robot_sent_s=sent_s,
        server_received_s=received_s + offset_s,
        server_sent_s=received_s + there_s + offset_s,
        robot_received_s=received_s + there_s + back_s,
        server_boot_id=boot_id,
    )


def test_equal_ways_give_the_exact_offset_and_half_the_way_as_bound():
    offset = offset_of(exchange(offset_s=300.0, out_s=0.25, there_s=5.0, back_s=0.25))
    assert offset.offset_s == pytest.approx(300.0)
    assert offset.bound_s == pytest.approx(0.25)
    assert offset.to_server_s(1.0) == pytest.approx(301.0)
    assert offset.to_robot_s(offset.to_server_s(1.0)) == pytest.approx(1.0)


@given(st.floats(-1e5, 1e5), delays_s, delays_s, delays_s)
def test_the_true_offset_is_within_the_bound_whatever_the_network_does(offset_s, out, there, back):
    found = offset_of(exchange(0.0, offset_s, out, there, back))
    assert abs(found.offset_s - offset_s) <= found.bound_s + 1e-9


def test_the_filter_keeps_the_round_with_the_smallest_bound_in_either_order():
    slow = exchange(out_s=0.5, back_s=0.1)
    fast = exchange(sent_s=1.0, out_s=0.001, back_s=0.002)
    for rounds in ((slow, fast), (fast, slow)):
        clock_filter = ClockFilter()
        for one in rounds:
            clock_filter.add(one)
        assert clock_filter.offset(1.003).measured_s == fast.robot_received_s


def test_the_filter_keeps_a_good_round_until_drift_has_made_it_worse_than_a_new_one():
    clock_filter = ClockFilter()
    assert clock_filter.offset(0.0) is None
    clock_filter.add(exchange(sent_s=0.0, out_s=0.001, back_s=0.001))
    clock_filter.add(exchange(sent_s=10.0, out_s=0.02, back_s=0.02))
    assert clock_filter.offset(10.0).bound_s == pytest.approx(0.001 + 10 * MAX_DRIFT, rel=0.01)
    clock_filter.add(exchange(sent_s=1000.0, out_s=0.02, back_s=0.02))
    assert clock_filter.offset(1000.04).bound_s == pytest.approx(0.02, rel=0.01)


def test_a_restarted_server_has_another_clock():
    clock_filter = ClockFilter()
    clock_filter.add(exchange(offset_s=300.0, out_s=0.001, back_s=0.001, boot_id="a"))
    clock_filter.add(exchange(sent_s=1.0, offset_s=7.0, out_s=0.1, back_s=0.1, boot_id="b"))
    assert clock_filter.offset(1.0).offset_s == pytest.approx(7.0)
