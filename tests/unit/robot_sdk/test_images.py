"""Pictures: one convention, and nothing silent."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.images import decode_rgb8, encode_image, image_id, normalise_image, read_header

IMAGE = np.random.default_rng(0).integers(0, 256, (10, 14, 3), np.uint8)


def test_a12_hwc_passes_without_a_copy():
    assert np.shares_memory(normalise_image(IMAGE), IMAGE)


def test_a12_chw_is_recognised_where_it_can_only_be_that():
    assert np.array_equal(normalise_image(IMAGE.transpose(2, 0, 1)), IMAGE)


def test_a12_an_ambiguous_layout_is_refused_until_it_is_named():
    image = np.random.default_rng(1).integers(0, 256, (3, 8, 3), np.uint8)
    with pytest.raises(InvalidArgumentError, match=r"images/wrist.*3 x height x width.*layout"):
        normalise_image(image, "images/wrist")
    assert np.array_equal(normalise_image(image, layout="hwc"), image)
    assert np.array_equal(normalise_image(image, layout="chw"), image.transpose(1, 2, 0))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((8, 8), np.uint8),
        np.zeros((8, 8, 1), np.uint8),
        np.zeros((4, 8, 8), np.uint8),
        np.zeros((1, 8, 8, 3), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
        np.zeros((8, 8, 3), np.int32),
        np.zeros((8, 8, 3), np.bool_),
    ],
    ids=["rgba", "gray", "gray1", "rgba-chw", "batch", "empty", "int32", "bool"],
)
def test_a12_rgba_gray_and_other_types_are_refused_by_name(image):
    with pytest.raises(InvalidArgumentError, match="images/wrist"):
        normalise_image(image, "images/wrist")


def test_a12_a_float_picture_must_say_its_range():
    image = IMAGE.astype(np.float32)
    with pytest.raises(InvalidArgumentError, match="float_range"):
        normalise_image(image / 255)
    assert np.array_equal(normalise_image(image / 255, float_range="0..1"), IMAGE)
    assert np.array_equal(normalise_image(image, float_range="0..255"), IMAGE)


@pytest.mark.parametrize("value", [-0.01, 1.01, np.nan])
def test_a12_a_float_outside_its_range_is_refused(value):
    image = np.full((2, 2, 3), value)
    with pytest.raises(InvalidArgumentError, match=r"outside 0\.\.1"):
        normalise_image(image, float_range="0..1")


def test_a12_a_list_is_not_a_picture():
    with pytest.raises(InvalidArgumentError, match="list"):
        normalise_image([[1, 2, 3]])


def test_a_picture_round_trips():
    wire = encode_image(IMAGE[::-1], "wrist")
    assert wire.camera == "wrist"
    result = decode_rgb8(common_pb2.Image.FromString(wire.SerializeToString()))
    assert np.array_equal(result, IMAGE[::-1])
    assert result.flags.writeable


def test_d10_the_id_covers_shape_and_every_byte():
    data = bytes(30 * 150 * 3)
    wide = image_id(common_pb2.IMAGE_ENCODING_RGB8, 30, 150, data)
    assert wide != image_id(common_pb2.IMAGE_ENCODING_RGB8, 150, 30, data)
    assert wide != image_id(common_pb2.IMAGE_ENCODING_PNG, 30, 150, data)
    assert wide != image_id(common_pb2.IMAGE_ENCODING_RGB8, 30, 150, data[:-1] + b"\x01")
    assert wide == image_id(common_pb2.IMAGE_ENCODING_RGB8, 30, 150, data)


@pytest.mark.parametrize("data_bytes", [0, 8, 9 * 3 - 1, 2**20])
def test_a_picture_that_lies_about_its_size_is_refused(data_bytes):
    wire = common_pb2.Image(
        encoding=common_pb2.IMAGE_ENCODING_RGB8, height=3, width=3, data=bytes(data_bytes)
    )
    with pytest.raises(InvalidArgumentError, match="3x3 RGB needs 27"):
        decode_rgb8(wire)


def test_a_compressed_picture_is_not_taken_for_pixels():
    wire = common_pb2.Image(encoding=common_pb2.IMAGE_ENCODING_JPEG, height=1, width=1, data=b"abc")
    with pytest.raises(InvalidArgumentError, match="not uncompressed"):
        decode_rgb8(wire)


def png(height, width):
    def chunk(kind, body):
        checksum = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\x00" + bytes(width * 3) for _ in range(height)))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def jpeg(height, width):
    comment = b"\xff\xfe" + struct.pack(">H", 6) + b"hey!"
    table = b"\xff\xc4" + struct.pack(">H", 4) + b"\x00\x00"
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 8, 8, height, width, 3)
    return b"\xff\xd8" + comment + b"\xff" + table + frame


def test_the_size_of_a_file_is_read_from_its_header():
    assert read_header(png(4, 7)) == (common_pb2.IMAGE_ENCODING_PNG, 4, 7)
    assert read_header(jpeg(40, 70)) == (common_pb2.IMAGE_ENCODING_JPEG, 40, 70)
    wire = encode_image(png(4, 7))
    assert (wire.height, wire.width, wire.data) == (4, 7, png(4, 7))


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", png(4, 7)[:20], jpeg(4, 7)[:-8], jpeg(0, 7), b"\xff\xd8\xff\xff\xff"]
)
def test_what_is_no_complete_picture_file_is_refused(data):
    with pytest.raises(InvalidArgumentError, match="not a complete picture"):
        encode_image(data)


def test_the_search_for_the_size_of_a_jpeg_is_bounded():
    padded = jpeg(40, 70)[:2] + b"\xff" * 9_000 + jpeg(40, 70)[2:]
    assert read_header(padded) == (common_pb2.IMAGE_ENCODING_JPEG, 40, 70)
    endless = jpeg(40, 70)[:2] + b"\xff" * 11_000 + jpeg(40, 70)[2:]
    with pytest.raises(InvalidArgumentError, match="not a complete picture"):
        read_header(endless)
