from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sim.fleet.statistics import first_low_hit_s


def test_the_first_window_under_the_threshold_counts_by_its_end() -> None:
    windows = [(120.0, 1.0), (240.0, 0.80), (360.0, 0.79), (480.0, 0.1)]
    assert first_low_hit_s(windows) == 360.0


def test_a_window_without_turns_is_not_a_low_one() -> None:
    assert first_low_hit_s([(120.0, None), (240.0, 0.9)]) is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=20), st.floats(0, 1))
def test_no_window_before_the_one_named_is_low(hits: list[float | None], threshold: float) -> None:
    windows = [(120.0 * (place + 1), hit) for place, hit in enumerate(hits)]
    found = first_low_hit_s(windows, threshold)
    for end_s, hit in windows:
        if found is not None and end_s == found:
            assert hit is not None
            assert hit < threshold
            break
        assert hit is None or hit >= threshold
