from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.latency_window import LatencyWindow


def _window(samples, **options) -> LatencyWindow:
    window = LatencyWindow(**options)
    for sample in samples:
        window.add(sample)
    return window


def test_without_samples_the_latency_is_unknown_not_zero():
    assert LatencyWindow().value_s() is None


def test_nearest_rank_of_the_recent_samples():
    assert _window(range(1, 33)).value_s() == 31


def test_one_outlier_among_many_is_ignored():
    assert _window([0.1] * 31 + [5.0]).value_s() == 0.1


def test_old_samples_leave_so_that_it_is_not_the_all_time_maximum():
    assert _window([5.0] * 40 + [0.1] * 32).value_s() == 0.1


def test_few_samples_are_taken_at_their_largest():
    assert _window([0.1, 0.3, 0.2]).value_s() == 0.3


@pytest.mark.parametrize("options", [{"size": 0}, {"quantile": 0.0}, {"quantile": 1.1}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        LatencyWindow(**options)
