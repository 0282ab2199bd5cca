"""Camera pictures of an observation as pixels."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.images import decode_rgb8, read_header
from server.pillow import pillow_image


def decode_picture(image: common_pb2.Image, name: str) -> NDArray[np.uint8]:
    """uint8 (H, W, 3) RGB, top row first, whatever encoding it came in.

    The size is read from the file's header and compared with the message before anything is
    decoded, so that a small file cannot unfold into a huge picture.

    Raises:
        InvalidArgumentError: Unknown encoding, a broken file, or another size than it says.
        MissingExtraError: A JPEG or PNG, and Pillow is not installed.
    """
    if image.encoding == common_pb2.IMAGE_ENCODING_RGB8:
        return decode_rgb8(image, name)
    encoding, height, width = read_header(image.data, name)
    if (encoding, height, width) != (image.encoding, image.height, image.width):
        raise InvalidArgumentError(
            f"{name} is another kind or size of picture than its message says",
            field=name,
            value=f"{height}x{width}",
            allowed=[f"{image.height}x{image.width}"],
        )
    image_module = pillow_image(f"{name} is a JPEG or PNG and Pillow is not installed")
    try:
        with image_module.open(io.BytesIO(image.data)) as picture:
            return np.array(picture.convert("RGB"), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidArgumentError(
            f"{name} cannot be decoded", field=name, value=str(error)
        ) from error
