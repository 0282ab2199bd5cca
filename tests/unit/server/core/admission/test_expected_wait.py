from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.core.admission import DurationHistory, expected_waits_s


def test_the_wait_is_unknown_until_an_episode_has_ended() -> None:
    assert expected_waits_s([5.0], None, cap=1, num_waiting=2) == [None, None]
    assert DurationHistory().mean_s() is None


def test_the_wait_is_unknown_without_a_cap_or_with_a_closed_door() -> None:
    assert expected_waits_s([], 10.0, cap=None, num_waiting=1) == [None]
    assert expected_waits_s([], 10.0, cap=0, num_waiting=1) == [None]


def test_each_place_waits_for_the_slot_it_will_get() -> None:
    assert expected_waits_s([8.0, 4.0], 10.0, cap=2, num_waiting=4) == [2.0, 6.0, 12.0, 16.0]


def test_an_episode_older_than_the_mean_is_about_to_end() -> None:
    assert expected_waits_s([25.0], 10.0, cap=1, num_waiting=2) == [0.0, 10.0]


def test_after_the_cap_was_lowered_more_than_one_must_end_first() -> None:
    assert expected_waits_s([9.0, 5.0, 1.0], 10.0, cap=1, num_waiting=1) == [9.0]


@given(
    st.lists(st.floats(0, 100), max_size=8),
    st.floats(0.1, 100),
    st.integers(1, 8),
    st.integers(0, 20),
)
def test_waits_never_shrink_along_the_queue(
    ages_s: list[float], mean_s: float, cap: int, num_waiting: int
) -> None:
    waits_s = [w for w in expected_waits_s(ages_s, mean_s, cap, num_waiting) if w is not None]

    assert len(waits_s) == num_waiting
    assert waits_s == sorted(waits_s)
    assert all(w >= 0 for w in waits_s)


def test_a_cap_of_four_billion_costs_no_more_than_one_slot_for_each_in_line() -> None:
    assert expected_waits_s([5.0], 10.0, cap=2**32 - 1, num_waiting=2) == [0.0, 0.0]
    assert expected_waits_s([], 10.0, cap=2**32 - 1, num_waiting=0) == []
