"""VirtualClock jumps instead of waiting; MonotonicClock never goes back."""

from __future__ import annotations

import threading

import pytest

from robot_sdk.clock import MonotonicClock, VirtualClock, to_ns


def test_sleep_until_jumps_to_exactly_the_deadline() -> None:
    clock = VirtualClock(10.0)

    clock.sleep_until(10.05)

    assert clock.now_s() == 10.05


def test_sleeping_until_a_past_moment_does_not_move_time_back() -> None:
    clock = VirtualClock(10.0)

    clock.sleep_until(9.0)

    assert clock.now_s() == 10.0


def test_virtual_time_cannot_be_advanced_backwards() -> None:
    with pytest.raises(ValueError, match="time cannot go back"):
        VirtualClock().advance(-0.1)


def test_a_virtual_wait_jumps_over_its_timeout_and_reports_that_it_ran_out() -> None:
    clock = VirtualClock()
    condition = threading.Condition()

    with condition:
        signalled = clock.wait(condition, 1.5)

    assert not signalled
    assert clock.now_s() == 1.5


def test_a_virtual_wait_without_limit_is_refused() -> None:
    condition = threading.Condition()

    with condition, pytest.raises(ValueError, match="needs a timeout_s"):
        VirtualClock().wait(condition, None)


def test_monotonic_clock_returns_at_once_for_a_past_deadline() -> None:
    clock = MonotonicClock()
    before_s = clock.now_s()

    clock.sleep_until(before_s - 1.0)

    assert clock.now_s() >= before_s


def test_to_ns_rounds_to_the_nearest_nanosecond() -> None:
    assert to_ns(1.0000000004) == 1_000_000_000
    assert to_ns(0.1 + 0.2) == 300_000_000
