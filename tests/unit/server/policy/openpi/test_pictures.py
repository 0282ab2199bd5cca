from __future__ import annotations

import numpy as np
import pytest

from server.policy.openpi.options import Picture
from server.policy.openpi.pictures import fit, prepare

#: Four colours, each in a corner of its own.
MARKER = np.zeros((4, 6, 3), np.uint8)
MARKER[:2, :3] = (250, 0, 0)
MARKER[:2, 3:] = (0, 250, 0)
MARKER[2:, :3] = (0, 0, 250)
MARKER[2:, 3:] = (250, 250, 0)


def test_f6_a_picture_is_turned_by_half_a_turn_once_and_not_mirrored():
    turned = prepare(MARKER, Picture("k", "t", rotate_180=True))

    assert tuple(turned[0, 0]) == (250, 250, 0)
    assert tuple(turned[0, -1]) == (0, 0, 250)
    assert tuple(turned[-1, 0]) == (0, 250, 0)
    assert tuple(turned[-1, -1]) == (250, 0, 0)


def test_f6_a_picture_that_needs_nothing_is_left_alone():
    np.testing.assert_array_equal(prepare(MARKER, Picture("k", "t")), MARKER)


def test_a12_colours_come_first_where_that_is_wanted():
    laid_out = prepare(MARKER, Picture("k", "t", layout="chw"))

    assert laid_out.shape == (3, 4, 6)
    assert tuple(laid_out[:, 0, 0]) == (250, 0, 0)


@pytest.mark.parametrize(
    ("size", "shape", "black_rows", "black_columns"),
    [
        ((480, 640), (224, 224), 28, 0),
        ((640, 480), (224, 224), 0, 28),
        ((256, 256), (224, 224), 0, 0),
        ((10, 1000), (224, 224), 111, 0),
        ((100, 200), (60, 200), 0, 40),
    ],
)
def test_a_picture_is_fitted_without_distortion_in_the_middle(
    size, shape, black_rows, black_columns
):
    fitted = fit(np.full((*size, 3), 200, np.uint8), *shape)

    assert fitted.shape == (*shape, 3)
    assert fitted.dtype == np.uint8
    inside = fitted[black_rows : shape[0] - black_rows, black_columns : shape[1] - black_columns]
    assert (inside == 200).all()
    assert (fitted == 200).all(axis=2).sum() == inside.shape[0] * inside.shape[1]
