from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.core.batching import STUDY_TABLE, LatencyLearner, StreamRate
from server.core.batching.tier_admission import TierAdmission


def rate(control_hz: float) -> StreamRate:
    return StreamRate(control_hz, executed_steps=5, horizon=10)


def study(margin_s: float = 0.005) -> TierAdmission:
    return TierAdmission(LatencyLearner(STUDY_TABLE), 64, lambda: margin_s)


@pytest.mark.parametrize(
    ("control_hz", "num_workers", "carried"),
    [(20, 1, 7), (20, 2, 14), (10, 1, 25), (10, 2, 50), (5, 1, 61)],
)
def test_on_the_study_table_so_many_robots_fit(
    control_hz: float, num_workers: int, carried: int
) -> None:
    assert study().fits([rate(control_hz)] * carried, num_workers)
    assert not study().fits([rate(control_hz)] * (carried + 1), num_workers)


def test_everything_fits_while_nothing_is_known() -> None:
    admission = TierAdmission(LatencyLearner(), 64, lambda: 0.005)
    assert admission.fits([rate(20)] * 64, 1)
    assert admission.highest_hz([rate(20)], rate(20), 1) is None


def test_a_policy_too_slow_for_one_robot_names_the_rate_it_can_do() -> None:
    fits_hz = study().highest_hz([], rate(50), 1)
    assert fits_hz is not None
    assert 30 < fits_hz < 31  # five steps in 165 ms


def test_no_rate_fits_beside_robots_that_fill_every_batch() -> None:
    assert study().highest_hz([rate(20)] * 7, rate(20), 1) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([2.5, 5.0, 8.0, 10.0, 15.0, 20.0]), max_size=20),
    st.sampled_from([5.0, 10.0, 20.0, 40.0]),
    st.integers(1, 3),
)
def test_the_rate_that_a_refusal_names_really_fits(
    rates_hz: list[float], wanted_hz: float, num_workers: int
) -> None:
    admission, others = study(), [rate(hz) for hz in rates_hz]
    fits_hz = admission.highest_hz(others, rate(wanted_hz), num_workers, below_hz=wanted_hz)
    if fits_hz is not None:
        assert fits_hz <= wanted_hz
        assert admission.fits([*others, rate(fits_hz)], num_workers)
