"""Pictures: one convention inside (uint8, height x width x 3, RGB), and their wire form.

Whatever cannot be told apart with certainty is refused by name. A picture that is silently
transposed or scaled gives a robot that moves wrongly and a log that looks right.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError

FloatRange = Literal["0..1", "0..255"]
Layout = Literal["hwc", "chw"]

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_START = b"\xff\xd8"
# Start-of-frame markers carry the size: 0xC0..0xCF without DHT, JPG and DAC.
_JPEG_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Markers and padding before the size that are read. Real files have a few dozen; the bound keeps a
#: file of nothing else from holding up whoever looks at it.
_MAX_JPEG_MARKERS = 10_000
_JPEG_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD8)})


def normalise_image(
    image: NDArray[np.generic],
    name: str = "image",
    *,
    layout: Layout | None = None,
    float_range: FloatRange | None = None,
) -> NDArray[np.uint8]:
    """`image` as uint8 (H, W, 3) RGB.

    | input                         | result                                         |
    |-------------------------------|------------------------------------------------|
    | uint8 (H, W, 3)               | as it is                                       |
    | uint8 (3, H, W)               | transposed, if W is not 3                      |
    | (3, H, 3)                     | refused unless `layout` says which it is       |
    | float, with `float_range`     | scaled and rounded; values outside are refused |
    | float without `float_range`   | refused                                        |
    | other dtypes, RGBA, gray      | refused                                        |

    Args:
        image: The picture.
        name: What to call it in an error, for example "images/wrist".
        layout: "hwc" or "chw"; None recognises it where there is only one reading.
        float_range: Range of a float picture.

    Raises:
        InvalidArgumentError: The picture is none of the above.
    """
    if not isinstance(image, np.ndarray):
        raise InvalidArgumentError(
            f"{name} is not a numpy array", field=name, value=type(image).__name__
        )
    pixels = _to_hwc(image, name, layout)
    if pixels.dtype == np.uint8:
        return pixels.view(np.uint8)
    if pixels.dtype.kind == "f":
        return _float_to_uint8(pixels, name, float_range)
    raise InvalidArgumentError(
        f"{name} has a dtype that is not a picture's",
        field=name,
        value=pixels.dtype,
        allowed=["uint8", "float with an explicit float_range"],
    )


def encode_image(
    image: NDArray[np.generic] | bytes, camera: str = "", name: str = "image"
) -> common_pb2.Image:
    """The wire form of a picture, with its id; see `write_image`."""
    wire = common_pb2.Image()
    write_image(wire, image, camera, name)
    wire.image_id = image_id(wire.encoding, wire.height, wire.width, wire.data)
    return wire


def write_image(
    into: common_pb2.Image, image: NDArray[np.generic] | bytes, camera: str, name: str
) -> None:
    """Fill `into`, an empty message, with a picture: an array, or a JPEG or PNG file's bytes.

    Leaves out the id, which costs a pass over all bytes and is of use only where pictures stay
    for longer than one request.

    Raises:
        InvalidArgumentError: Not a picture; see `normalise_image`.
    """
    data = write_image_head(into, image, camera, name)
    into.data = data if isinstance(data, bytes) else data.tobytes()


def write_image_head(
    into: common_pb2.Image, image: NDArray[np.generic] | bytes, camera: str, name: str
) -> bytes | memoryview:
    """As `write_image`, but return the data field, uncopied where that is possible.

    Returns:
        A file's bytes, or the pixels in C order.
    """
    into.camera = camera
    if isinstance(image, (bytes, bytearray, memoryview)):
        file = bytes(image)
        encoding, height, width = read_header(file, name)
        into.encoding = encoding  # type: ignore[assignment]
        into.height = height
        into.width = width
        return file
    pixels = normalise_image(image, name)
    into.encoding = common_pb2.IMAGE_ENCODING_RGB8
    into.height, into.width = pixels.shape[:2]
    return np.ascontiguousarray(_in_order(pixels)).data


def decode_rgb8(image: common_pb2.Image, name: str = "image") -> NDArray[np.uint8]:
    """The pixels of an uncompressed wire picture, writable uint8 (H, W, 3).

    Raises:
        InvalidArgumentError: Another encoding, or the bytes do not fit the size.
    """
    if image.encoding != common_pb2.IMAGE_ENCODING_RGB8:
        raise InvalidArgumentError(
            f"{name} is not uncompressed RGB",
            field=name,
            value=image.encoding,
            allowed=["IMAGE_ENCODING_RGB8"],
        )
    expected_bytes = image.height * image.width * 3
    data = image.data  # every reading of the field is a copy
    if len(data) != expected_bytes:
        raise InvalidArgumentError(
            f"{name} has {len(data)} bytes, but {image.height}x{image.width} RGB needs "
            f"{expected_bytes}",
            field=name,
            value=len(data),
            allowed=[expected_bytes],
        )
    flat = np.frombuffer(data, dtype=np.uint8)
    picture: NDArray[np.uint8] = flat.reshape(image.height, image.width, 3).copy()
    return picture


def image_id(encoding: int, height: int, width: int, data: bytes) -> str:
    """Stable name of a picture: 32 hex digits over encoding, size and all of its bytes."""
    digest = hashlib.blake2b(struct.pack("<IQQ", encoding, height, width), digest_size=16)
    digest.update(data)
    return digest.hexdigest()


def read_header(data: bytes, name: str = "image") -> tuple[int, int, int]:
    """(encoding, height, width) of a JPEG or PNG file, read without decoding it.

    Raises:
        InvalidArgumentError: Neither, or it breaks off before its size.
    """
    size = None
    encoding: int = common_pb2.IMAGE_ENCODING_UNSPECIFIED
    if data.startswith(_PNG_SIGNATURE):
        encoding, size = common_pb2.IMAGE_ENCODING_PNG, _png_size(data)
    elif data.startswith(_JPEG_START):
        encoding, size = common_pb2.IMAGE_ENCODING_JPEG, _jpeg_size(data)
    if size is None or 0 in size:
        raise InvalidArgumentError(
            f"{name} is not a complete picture file",
            field=name,
            value=data[:8].hex(" "),
            allowed=["JPEG", "PNG", "a uint8 (H, W, 3) array"],
        )
    return encoding, size[0], size[1]


def _in_order(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same picture in C order.

    numpy copies a turned or mirrored picture three bytes at a time. Channel by channel it copies
    whole rows, which takes a twentieth of the time at 224 x 224 and would be felt at 20 Hz.
    """
    if pixels.flags.c_contiguous:
        return pixels
    copy = np.empty(pixels.shape, np.uint8)
    for channel in range(3):
        copy[..., channel] = pixels[..., channel]
    return copy


def _to_hwc(image: NDArray[np.generic], name: str, layout: Layout | None) -> NDArray[np.generic]:
    shape = image.shape
    fits_hwc = len(shape) == 3 and shape[2] == 3 and layout != "chw"
    fits_chw = len(shape) == 3 and shape[0] == 3 and layout != "hwc"
    if fits_hwc and fits_chw:
        raise InvalidArgumentError(
            f"{name} can be read as height x width x 3 and as 3 x height x width",
            field=name,
            value=shape,
            hint='say which with normalise_image(image, layout="hwc") or "chw"',
        )
    if fits_hwc:
        pixels = image
    elif fits_chw:
        pixels = image.transpose(1, 2, 0)
    else:
        raise InvalidArgumentError(
            f"{name} has a shape that is not an RGB picture's",
            field=name,
            value=shape,
            allowed=["(H, W, 3)", "(3, H, W)"],
            hint="drop an alpha channel with image[..., :3]; repeat a gray one three times",
        )
    if 0 in pixels.shape:
        raise InvalidArgumentError(f"{name} has no pixels", field=name, value=shape)
    return pixels


def _float_to_uint8(
    pixels: NDArray[np.generic], name: str, float_range: FloatRange | None
) -> NDArray[np.uint8]:
    if float_range is None:
        raise InvalidArgumentError(
            f"{name} is a float picture and does not say its range",
            field=name,
            value=pixels.dtype,
            hint='use normalise_image(image, float_range="0..1") or "0..255"',
        )
    values = pixels.astype(np.float64)
    top = 1.0 if float_range == "0..1" else 255.0
    low, high = float(values.min()), float(values.max())
    if not (low >= 0.0 and high <= top):  # also catches NaN
        raise InvalidArgumentError(
            f"{name} has values outside {float_range}", field=name, value=f"{low}..{high}"
        )
    return np.rint(values * (255.0 / top)).astype(np.uint8)


def _png_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return height, width


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    position = 2
    for _ in range(_MAX_JPEG_MARKERS):
        if position + 4 > len(data):
            return None
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif marker in _JPEG_BARE_MARKERS:
            position += 2
        elif marker in _JPEG_FRAME_MARKERS:
            if position + 9 > len(data):
                return None
            height, width = struct.unpack_from(">HH", data, position + 5)
            return height, width
        else:
            position += 2 + struct.unpack_from(">H", data, position + 2)[0]
    return None
