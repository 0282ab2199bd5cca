from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.fleet.statistics import quantile, quantiles
from sim.fleet.statistics.quantiles import FRACTIONS, least_sample

VALUES = st.lists(st.floats(-1e6, 1e6), max_size=60)


def test_a_quantile_needs_a_sample_with_a_value_at_or_above_it() -> None:
    assert {name: least_sample(share) for name, share in FRACTIONS.items()} == {
        "p50": 2,
        "p90": 10,
        "p99": 100,
        "p999": 1000,
    }
    assert quantile([1.0] * 999, 0.999) is None
    assert quantile([1.0] * 1000, 0.999) == 1.0


def test_of_nothing_nothing_is_known() -> None:
    assert quantiles([]) == {"p50": None, "p90": None, "p99": None, "p999": None, "max": None}


@given(VALUES, st.floats(0.0, 0.98))
def test_a_quantile_is_what_numpy_says(values: list[float], fraction: float) -> None:
    found = quantile(values, fraction)
    if len(values) < least_sample(fraction):
        assert found is None
    else:
        assert found == pytest.approx(float(np.quantile(values, fraction)), abs=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_quantiles_rise_up_to_the_largest_value(values: list[float]) -> None:
    values = values * 1000
    found = list(quantiles(values).values())
    assert all(value is not None for value in found)
    assert found == sorted(found)  # type: ignore[type-var]
    assert found[-1] == max(values)
