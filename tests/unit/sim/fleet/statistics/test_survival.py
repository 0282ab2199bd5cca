from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.statistics import Duration, kaplan_meier

DURATIONS = st.lists(
    st.builds(Duration, st.integers(0, 15).map(lambda place: 120.0 * place), st.booleans()),
    max_size=30,
)


def test_the_studys_six_runs_at_24_robots() -> None:
    runs = [Duration(time_s, happened=True) for time_s in (480, 960, 1080, 1200)]
    curve = kaplan_meier([*runs, *[Duration.observed(None, 1800.0)] * 2])
    assert [(step.time_s, step.at_risk) for step in curve.steps] == [
        (480, 6),
        (960, 5),
        (1080, 4),
        (1200, 3),
    ]
    assert [step.survival for step in curve.steps] == pytest.approx([5 / 6, 4 / 6, 3 / 6, 2 / 6])
    assert curve.median_s == 1080
    assert curve.censored_s == (1800.0, 1800.0)


def test_a_censored_run_leaves_the_risk_set_after_the_events_of_its_time() -> None:
    curve = kaplan_meier([Duration(1, False), Duration(1, True), Duration(2, True)])
    assert [(step.at_risk, step.survival) for step in curve.steps] == [
        (3, pytest.approx(2 / 3)),
        (1, 0.0),
    ]


def test_greenwoods_band_of_a_known_curve() -> None:
    # 10 runs, one event: S = 0.9, sum d/(n(n-d)) = 1/90, theta = 1.96 * sqrt(1/90) / |ln 0.9|.
    curve = kaplan_meier([Duration(1, True), *[Duration(9, False)] * 9])
    theta = 1.959964 * math.sqrt(1 / 90) / abs(math.log(0.9))
    assert curve.steps[0].low == pytest.approx(0.9 ** math.exp(theta), rel=1e-5)
    assert curve.steps[0].high == pytest.approx(0.9 ** math.exp(-theta), rel=1e-5)


def test_without_an_event_nothing_is_estimated_but_1() -> None:
    curve = kaplan_meier([Duration(1800, False)] * 3)
    assert (curve.steps, curve.median_s, curve.survival_at(1e6)) == ((), None, 1.0)
    assert curve.outline(1800.0) == ([0.0, 1800.0], [1.0, 1.0])


@given(DURATIONS)
def test_survival_falls_from_1_inside_its_band_and_every_event_is_counted(
    runs: list[Duration],
) -> None:
    curve = kaplan_meier(runs)
    shares = [1.0, *(step.survival for step in curve.steps)]
    assert all(later < earlier for earlier, later in zip(shares, shares[1:], strict=False))
    assert all(0.0 <= s.low <= s.survival + 1e-12 for s in curve.steps)
    assert all(s.survival - 1e-12 <= s.high <= 1.0 for s in curve.steps)
    assert sum(step.events for step in curve.steps) + len(curve.censored_s) == len(runs)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=30))
def test_without_censoring_it_is_the_share_of_runs_that_last_longer(times: list[int]) -> None:
    curve = kaplan_meier([Duration(time_s, True) for time_s in times])
    for time_s in range(16):
        longer = sum(one > time_s for one in times) / len(times)
        assert curve.survival_at(time_s) == pytest.approx(longer, abs=1e-9)


@pytest.mark.parametrize("time_s", [-1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(time_s: float) -> None:
    with pytest.raises(InvalidArgumentError, match="time_s"):
        kaplan_meier([Duration(time_s, True)])
    with pytest.raises(InvalidArgumentError, match="confidence"):
        kaplan_meier([], confidence=1.0)
