from __future__ import annotations

import math

import numpy as np
import pytest

from robot_sdk.merging import (
    ENSEMBLE_DECAY,
    Row,
    linear_blend,
    replace,
    temporal_ensemble,
)


def _rows(first_step: int, values: list[float]) -> dict[int, Row]:
    return {first_step + i: Row(np.array([value])) for i, value in enumerate(values)}


def _values(rows: dict[int, Row]) -> dict[int, float]:
    return {step: float(row.value[0]) for step, row in sorted(rows.items())}


def test_replace_keeps_old_rows_only_before_the_new_chunk():
    merged = replace(_rows(3, [30, 40, 50, 60, 70]), _rows(5, [5, 6]))
    assert _values(merged) == {3: 30, 4: 40, 5: 5, 6: 6}


def test_linear_blend_weighs_the_new_chunk_from_low_to_high_over_the_overlap():
    merged = linear_blend(_rows(3, [0, 0, 0, 0]), _rows(4, [1, 1, 1, 1]))
    assert _values(merged) == pytest.approx({3: 0, 4: 0.25, 5: 0.5, 6: 0.75, 7: 1})


def test_linear_blend_takes_a_row_that_one_chunk_has_as_it_is():
    merged = linear_blend(_rows(0, [1, 2, 3, 4]), _rows(1, [9]))
    assert _values(merged) == {0: 1, 1: 5.5, 2: 3, 3: 4}


def test_temporal_ensemble_matches_the_weighted_mean_over_all_predictions():
    merged = _rows(0, [4.0])
    for value in (7.0, -2.0, 1.0):
        merged = temporal_ensemble(merged, _rows(0, [value]))
    weights = [math.exp(-ENSEMBLE_DECAY * i) for i in range(4)]
    expected = np.average([4.0, 7.0, -2.0, 1.0], weights=weights)
    assert _values(merged) == {0: pytest.approx(expected)}
    assert merged[0].num_predictions == 4


def test_temporal_ensemble_gives_the_oldest_prediction_most_weight():
    merged = temporal_ensemble(_rows(0, [0.0]), _rows(0, [1.0]))
    assert 0.49 < merged[0].value[0] < 0.5


@pytest.mark.parametrize("merge", [replace, linear_blend, temporal_ensemble])
def test_equal_predictions_stay_bit_equal(merge):
    merged = merge(_rows(0, [0.1, 0.7, 1 / 3]), _rows(0, [0.1, 0.7, 1 / 3]))
    assert _values(merged) == {0: 0.1, 1: 0.7, 2: 1 / 3}
