from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.fleet.workload.quantiles import QuantileCurve, ranked, strata, two_sided, whole


@given(num=st.integers(1, 200), seed=st.integers(0, 2**31))
def test_one_rank_is_in_each_part(num: int, seed: int) -> None:
    for ranks in (strata(num), strata(num, np.random.default_rng(seed))):
        assert np.floor(ranks * num).tolist() == list(range(num))


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(1, 99)), min_size=1, max_size=30))
def test_the_largest_score_gets_the_largest_value_and_none_is_lost(
    pairs: list[tuple[float, float]],
) -> None:
    scores, values = (np.array(part) for part in zip(*pairs, strict=True))
    handed_out = ranked(scores, values)
    assert sorted(handed_out) == sorted(values)
    assert np.all(np.diff(handed_out[np.argsort(scores, kind="stable")]) >= 0)


@pytest.mark.parametrize("over_normal_scores", [False, True])
def test_a_sample_of_a_curve_has_its_quantiles(over_normal_scores: bool) -> None:
    curve = QuantileCurve((0.001, 0.5, 0.9, 0.999), (1.0, 8.0, 20.0, 60.0), over_normal_scores)
    sample = curve(strata(2000))
    assert np.percentile(sample, [50, 90]) == pytest.approx([8.0, 20.0], rel=0.01)
    assert sample.min() == pytest.approx(1.0, rel=0.01)
    assert sample.max() == pytest.approx(60.0, rel=0.02)


@given(
    median=st.floats(5.0, 50.0),
    mean_over_median=st.floats(1.02, 1.6),
    lower_sigma=st.floats(0.05, 0.5),
)
def test_a_two_sided_spread_has_its_median_and_its_sum(
    median: float, mean_over_median: float, lower_sigma: float
) -> None:
    # The median of an even number is between its two middle ones, a little off the curve's.
    values = two_sided(median, 20 * median * mean_over_median, lower_sigma, 20)
    assert values.sum() == pytest.approx(20 * median * mean_over_median, rel=1e-6)
    assert np.median(values) == pytest.approx(median, rel=0.06)
    assert np.all(np.diff(values) >= 0)


@given(
    values=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30),
    least=st.integers(0, 5),
    more=st.integers(0, 400),
)
def test_whole_numbers_have_their_sum_and_none_is_too_small(
    values: list[float], least: int, more: int
) -> None:
    total = least * len(values) + more
    rounded = whole(np.sort(values), total, least)
    assert rounded.sum() == total
    assert rounded.min() >= least
    assert np.all(np.diff(rounded) >= 0)


def test_a_sum_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="3 values of at least 2"):
        whole(np.array([1.0, 2.0, 3.0]), 5, 2)
