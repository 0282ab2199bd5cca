"""Pictures as data URLs."""

from __future__ import annotations

import base64
import io

from robot_sdk.api.v1 import common_pb2
from server.brain.interface import StoredImage
from server.pillow import pillow_image

_MEDIA_TYPES: dict[int, str] = {
    common_pb2.IMAGE_ENCODING_JPEG: "image/jpeg",
    common_pb2.IMAGE_ENCODING_PNG: "image/png",
}


def data_url(image: StoredImage, image_format: str, jpeg_quality: int) -> bytes:
    """A picture as a data URL. A JPEG or PNG file keeps its bytes; raw pixels are compressed.

    Args:
        image: The picture as it came.
        image_format: "jpeg" or "png", for raw pixels.
        jpeg_quality: 1 to 100, for raw pixels.

    Raises:
        MissingExtraError: Raw pixels, and Pillow is not installed.
    """
    media_type = _MEDIA_TYPES.get(image.encoding)
    data = image.data
    if media_type is None:
        media_type = f"image/{image_format}"
        data = _compress(image, image_format, jpeg_quality)
    return b"data:" + media_type.encode() + b";base64," + base64.b64encode(data)


def _compress(image: StoredImage, image_format: str, jpeg_quality: int) -> bytes:
    image_module = pillow_image("raw pictures need Pillow")
    picture = image_module.frombytes("RGB", (image.width, image.height), image.data)
    file = io.BytesIO()
    options = {"quality": jpeg_quality} if image_format == "jpeg" else {}
    picture.save(file, image_format.upper(), **options)
    return file.getvalue()
