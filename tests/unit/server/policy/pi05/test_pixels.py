from __future__ import annotations

import numpy as np
import pytest
import torch

from robot_sdk.errors import ObservationMismatchError
from server.policy.pi05.pixels import check_picture, prepare_pictures, resize_with_pad

CPU = torch.device("cpu")


def prepare(picture: np.ndarray, side_px: int, rotate: bool = False) -> torch.Tensor:
    return prepare_pictures([picture], side_px, [rotate], True, CPU)[0]


def test_black_is_minus_one_and_white_is_one() -> None:
    black, white = np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8)

    assert prepare(black, 8).unique().tolist() == [-1.0]
    assert prepare(white, 8).unique().tolist() == [1.0]


def test_channels_come_first_and_the_top_row_stays_on_top() -> None:
    picture = np.zeros((4, 4, 3), np.uint8)
    picture[0, 3] = (255, 0, 0)

    ready = prepare(picture, 4)

    assert ready.shape == (3, 4, 4)
    assert ready[0, 0, 3] == 1.0
    assert (ready == 1.0).sum() == 1


def test_a_turned_picture_is_upside_down() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)

    assert torch.equal(prepare(picture, 6, rotate=True), prepare(picture, 6).flip(1, 2))


@pytest.mark.parametrize(("height", "width"), [(20, 40), (40, 20), (7, 13)])
def test_shape_is_kept_and_the_rest_is_black(height: int, width: int) -> None:
    ready = prepare(np.full((height, width, 3), 255, np.uint8), 16)

    white = ready[0] > 0.99
    rows, columns = int(white.any(1).sum()), int(white.any(0).sum())
    assert max(rows, columns) == 16
    assert min(rows, columns) == int(16 * min(height, width) / max(height, width))
    assert bool(torch.equal(white, white.flip(0))) or (16 - rows) % 2 == 1
    assert ready.min() == (-1.0 if rows != columns else 1.0)


def test_pictures_of_different_sizes_go_together() -> None:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (size, size, 3), dtype=np.uint8) for size in (8, 12, 8)]

    together = prepare_pictures(pictures, 8, [False, True, True], False, CPU)
    alone = [
        prepare_pictures([picture], 8, [turn], False, CPU)[0]
        for picture, turn in zip(pictures, (False, True, True))
    ]

    assert torch.equal(together, torch.stack(alone))


def test_averaging_sees_every_pixel_and_reading_between_two_does_not() -> None:
    stripes = torch.zeros(1, 3, 16, 16)
    stripes[..., ::4] = 1.0

    averaged = resize_with_pad(stripes, 4, antialias=True)
    picked = resize_with_pad(stripes, 4, antialias=False)

    assert averaged.mean() == pytest.approx(0.25, abs=0.05)
    assert picked.mean() == 0.0


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((8, 8, 3), np.float32),
        np.zeros((3, 8, 8), np.uint8),
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((8, 8), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
        None,
        [[0]],
    ],
    ids=["float", "channels first", "rgba", "gray", "empty", "absent", "list"],
)
def test_a12_anything_but_the_one_convention_is_refused_by_name(picture: object) -> None:
    with pytest.raises(ObservationMismatchError, match="images/wrist") as raised:
        check_picture("images/wrist", picture, None)
    assert raised.value.field == "images/wrist"
    assert raised.value.allowed == ("uint8 (any, any, 3)",)


def test_a_declared_size_is_exact() -> None:
    check_picture("images/wrist", np.zeros((6, 8, 3), np.uint8), (6, 8))
    with pytest.raises(ObservationMismatchError, match=r"uint8 \(8, 6, 3\).*uint8 \(6, 8, 3\)"):
        check_picture("images/wrist", np.zeros((8, 6, 3), np.uint8), (6, 8))
