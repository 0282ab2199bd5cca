from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.fleet.statistics import jain_index


def test_jains_index_is_one_for_equals_and_one_nth_if_one_has_all() -> None:
    assert jain_index([0.3] * 5) == pytest.approx(1.0)
    assert jain_index([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain_index([]) == 1.0
    assert jain_index([0.0, 0.0]) == 1.0


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50), st.integers(1, 9))
def test_jains_index_lies_between_one_nth_and_one_whatever_the_scale(
    counts: list[int], scale: int
) -> None:
    index = jain_index(counts)
    assert 1 / len(counts) - 1e-9 <= index <= 1 + 1e-9
    assert jain_index([scale * count for count in counts]) == pytest.approx(index)
