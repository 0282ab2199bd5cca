from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.fleet.statistics import seed_mean, wilson_interval
from sim.fleet.statistics.confidence import student_975

VALUES = st.lists(st.one_of(st.none(), st.integers(-1000, 1000)), max_size=40)


def test_one_seed_has_a_mean_but_no_interval() -> None:
    one = seed_mean([2.4, None])
    assert one is not None
    assert (one.mean, one.low, one.high, one.num_seeds) == (2.4, None, None, 1)


def test_two_seeds_have_students_wide_interval() -> None:
    two = seed_mean([1.0, 3.0])
    assert two is not None
    assert (two.low, two.high) == (pytest.approx(2 - 12.706), pytest.approx(2 + 12.706))


def test_of_no_seed_nothing_is_known() -> None:
    assert seed_mean([None]) is None


@given(VALUES)
def test_the_interval_holds_the_mean_which_lies_between_the_values(
    values: list[float | None],
) -> None:
    found = seed_mean(values)
    if found is None:
        assert not [value for value in values if value is not None]
        return
    assert found.least - 1e-9 <= found.mean <= found.most + 1e-9
    assert found.low is None or found.low <= found.mean
    assert found.high is None or found.mean <= found.high


def test_students_points_fall_with_the_degrees_of_freedom_towards_the_normal_one() -> None:
    points = [student_975(degrees) for degrees in range(1, 100)]
    assert points == sorted(points, reverse=True)
    assert points[-1] > 1.96


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_shares_interval_holds_the_share_and_is_never_a_point(counts: tuple[int, int]) -> None:
    hits, runs = counts
    low, high = wilson_interval(hits, runs)
    assert 0.0 <= low <= hits / runs + 1e-9
    assert hits / runs - 1e-9 <= high <= 1.0
    assert low < high


@pytest.mark.parametrize("degrees", range(1, 31))
def test_95_percent_of_students_distribution_lie_within_its_point(degrees: int) -> None:
    scale = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2) / math.sqrt(degrees * math.pi)

    def density(t: float) -> float:
        return scale * (1 + t * t / degrees) ** (-(degrees + 1) / 2)

    num = 1000
    width = 2 * student_975(degrees) / num
    middles = (width * (place + 0.5 - num / 2) for place in range(num))
    assert width * sum(density(t) for t in middles) == pytest.approx(0.95, abs=1e-4)


def test_a_share_of_no_runs_is_unknown() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    # z^2 / (n + z^2) with z of 1.96.
    assert wilson_interval(0, 10)[1] == pytest.approx(0.2775, abs=5e-4)
