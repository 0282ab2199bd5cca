"""The pixels of a picture as it came from a robot."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError
from server.brain.interface import StoredImage

#: A picture of a camera, uint8 (H, W, 3).
Pixels = NDArray[np.uint8]


def decode(image: StoredImage, name: str = "image") -> Pixels:
    """The pixels of a picture, uint8 (H, W, 3) RGB.

    Raises:
        InvalidArgumentError: The bytes are not a picture of the size that was said.
    """
    if image.encoding == common_pb2.IMAGE_ENCODING_RGB8:
        flat = np.frombuffer(image.data, np.uint8)
        if flat.size != image.height * image.width * 3:
            raise _broken(image, name, f"{flat.size} bytes")
        return flat.reshape(image.height, image.width, 3)
    from PIL import Image

    try:
        with Image.open(io.BytesIO(image.data), formats=("PNG", "JPEG")) as opened:
            pixels = np.array(opened.convert("RGB"), np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _broken(image, name, str(error)) from error
    if pixels.shape[:2] != (image.height, image.width):
        raise _broken(image, name, f"{pixels.shape[0]}x{pixels.shape[1]} pixels")
    return pixels


def _broken(image: StoredImage, name: str, found: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the bytes are not a picture of the size that was said",
        field=name,
        value=found,
        allowed=[f"{image.height}x{image.width} pixels"],
    )
