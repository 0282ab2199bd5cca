"""Robots that need a place at the action tier only part of the time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.core.capacity import robots_sharing
from server.core.capacity.sharing import FULL_SHARE

PLACES = st.integers(0, 64)
SHARES = st.floats(0.001, 1.0)


def test_robots_that_never_stop_need_a_place_each() -> None:
    assert robots_sharing(7, 1.0) == 7


def test_without_a_place_no_robot_fits_however_seldom_it_comes() -> None:
    assert robots_sharing(0, 0.01) == 0


def test_places_are_shared_by_as_many_as_the_binomial_says() -> None:
    # One other robot at 1% takes the place in 1%; two take it in 1.99%.
    assert robots_sharing(1, 0.01) == 2
    # All 3 others at 20%: 0.8%. 3 or more of 4: 4 * 0.2^3 * 0.8 + 0.2^4 = 2.7%.
    assert robots_sharing(3, 0.2) == 4


@given(PLACES, SHARES)
def test_sharing_never_carries_fewer_and_no_more_than_the_mean_allows(
    places: int, share: float
) -> None:
    robots = robots_sharing(places, share)
    assert robots >= places
    assert share == 1.0 or robots == places or robots * share <= places + 1


@given(PLACES, PLACES, SHARES)
def test_more_places_never_carry_fewer_robots(one: int, other: int, share: float) -> None:
    few, many = sorted((one, other))
    assert robots_sharing(few, share) <= robots_sharing(many, share)


def test_a_robot_finds_the_tier_full_as_seldom_as_promised() -> None:
    chance = random.Random(0)
    others, looks = robots_sharing(7, 0.1) - 1, 20_000
    full = sum(sum(chance.random() < 0.1 for _ in range(others)) >= 7 for _ in range(looks))
    assert full / looks <= FULL_SHARE + 0.002


@pytest.mark.parametrize(("places", "share"), [(-1, 0.5), (7, 0.0), (7, 1.01), (7, float("nan"))])
def test_what_cannot_be_is_refused(places: int, share: float) -> None:
    with pytest.raises(InvalidArgumentError, match="out of range"):
        robots_sharing(places, share)
