"""Pixels of pictures as they came."""

from __future__ import annotations

import io

import numpy as np
import pytest

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError
from server.brain.interface import StoredImage
from server.brain.rendering.image_decoding import decode

image_module = pytest.importorskip("PIL.Image", reason="needs the extra [server]")

PIXELS = np.arange(30 * 150 * 3, dtype=np.uint8).reshape(30, 150, 3)


def stored(encoding: int, data: bytes, height: int = 30, width: int = 150) -> StoredImage:
    return StoredImage(encoding, height, width, data)


def test_d10_equal_bytes_of_another_shape_are_another_picture() -> None:
    lying = decode(stored(common_pb2.IMAGE_ENCODING_RGB8, PIXELS.tobytes()))
    standing = decode(stored(common_pb2.IMAGE_ENCODING_RGB8, PIXELS.tobytes(), 150, 30))

    assert np.array_equal(lying, PIXELS)
    assert standing.shape == (150, 30, 3)


def test_a_png_file_has_the_pixels_it_was_made_of() -> None:
    file = io.BytesIO()
    image_module.fromarray(PIXELS).save(file, "PNG")

    assert np.array_equal(decode(stored(common_pb2.IMAGE_ENCODING_PNG, file.getvalue())), PIXELS)


def test_a_grey_file_becomes_rgb() -> None:
    file = io.BytesIO()
    image_module.fromarray(PIXELS[..., 0]).save(file, "PNG")

    pixels = decode(stored(common_pb2.IMAGE_ENCODING_PNG, file.getvalue()))

    assert np.array_equal(pixels, np.repeat(PIXELS[..., :1], 3, axis=2))


@pytest.mark.parametrize(
    "broken",
    [
        stored(common_pb2.IMAGE_ENCODING_RGB8, b"123"),
        stored(common_pb2.IMAGE_ENCODING_PNG, b"\x89PNG\r\n\x1a\n"),
        stored(common_pb2.IMAGE_ENCODING_JPEG, b"\xff\xd8\xff"),
    ],
)
def test_broken_bytes_are_refused_with_the_size_that_was_said(broken: StoredImage) -> None:
    with pytest.raises(InvalidArgumentError, match="30x150 pixels"):
        decode(broken, "frame")


def test_a_file_of_another_size_than_was_said_is_refused() -> None:
    file = io.BytesIO()
    image_module.fromarray(PIXELS).save(file, "PNG")

    with pytest.raises(InvalidArgumentError, match="30x150 pixels"):
        decode(stored(common_pb2.IMAGE_ENCODING_PNG, file.getvalue(), 10, 10))
