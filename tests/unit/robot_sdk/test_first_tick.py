from __future__ import annotations

import pytest

from robot_sdk.first_tick import first_tick_s
from robot_sdk.timesync import ClockOffset

OFFSET = ClockOffset(offset_s=1000.0, bound_s=0.001, measured_s=0.0)


@pytest.mark.parametrize("way_s", [0.001, 0.006, 0.011, 0.5])
def test_how_long_the_message_was_on_its_way_does_not_move_the_first_tick(way_s):
    sent_s = 7.0
    received_s = sent_s + way_s
    assert first_tick_s(0.2, received_s, sent_s + 1000.0, OFFSET) == pytest.approx(7.199)


def test_without_the_servers_time_the_best_round_trip_is_made_up_for():
    assert first_tick_s(0.2, 7.0, None, OFFSET) == pytest.approx(7.198)


@pytest.mark.parametrize("server_sent_s", [0.0, 9999.0])
def test_a_time_of_another_clock_is_not_believed(server_sent_s):
    assert first_tick_s(0.2, 7.0, server_sent_s, OFFSET) == pytest.approx(7.198)


def test_without_an_offset_the_wish_counts_from_receipt():
    assert first_tick_s(0.2, 7.0, 1007.0, None) == pytest.approx(7.2)
