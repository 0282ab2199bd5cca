from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.lateness import LatenessHistogram, LatenessStats


def _stats(samples_s) -> LatenessStats:
    histogram = LatenessHistogram()
    for sample_s in samples_s:
        histogram.add(sample_s)
    return histogram.stats()


def test_without_ticks_nothing_is_known():
    assert _stats([]) == LatenessStats(0, None, None, None, None)


def test_maximum_is_exact_also_beyond_the_last_bin():
    stats = _stats([0.001, 123.0])
    assert stats.max_s == 123.0
    assert stats.p999_s == 123.0


def test_rare_late_tick_shows_in_p999_but_not_in_p99():
    stats = _stats([0.001] * 998 + [0.5] * 2)
    assert stats.p99_s < 0.0012
    assert stats.p999_s == 0.5


@given(st.lists(st.floats(1e-5, 9.0), min_size=1, max_size=200))
@settings(deadline=None)
def test_quantiles_are_never_too_low_and_at_most_an_eighth_too_high(samples_s):
    stats = _stats(samples_s)
    for quantile, value_s in ((0.5, stats.p50_s), (0.99, stats.p99_s), (0.999, stats.p999_s)):
        exact_s = np.quantile(samples_s, quantile, method="inverted_cdf")
        assert exact_s * (1 - 1e-9) <= value_s <= exact_s * 1.125
