"""Pictures decoded once, however many turns they stay in the conversation."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError
from server.brain.interface import StoredImage

#: A picture of a camera, uint8 (H, W, 3).
Pixels = NDArray[np.uint8]


class ImageCache:
    """Decoded pictures by id, those used last kept. Thread-safe.

    Ids are `robot_sdk.images.image_id`: over encoding, height, width and all bytes, so that no two
    pictures share one. A picture that was evicted is decoded again.

    Args:
        max_bytes: Of pixels. A larger picture is decoded at each use.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pixels: OrderedDict[str, Pixels] = OrderedDict()
        self._num_bytes = 0
        self._num_decoded = 0
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes of pixels that are kept."""
        return self._num_bytes

    @property
    def num_decoded(self) -> int:
        """Pictures decoded so far: how often the cache could not help."""
        return self._num_decoded

    def pixels(self, image_id: str, find: Callable[[str], StoredImage | None]) -> Pixels:
        """The picture, read-only.

        Args:
            image_id: Its id.
            find: Where its bytes are, asked only if it has to be decoded.

        Raises:
            InvalidArgumentError: There are no bytes, or they are not a picture of that size.
        """
        with self._lock:
            found = self._pixels.get(image_id)
            if found is not None:
                self._pixels.move_to_end(image_id)
                return found
        stored = find(image_id)
        if stored is None:
            raise InvalidArgumentError(
                "the server does not have this picture", field="image_id", value=image_id
            )
        pixels = decode(stored, image_id)
        pixels.flags.writeable = False
        with self._lock:
            self._num_decoded += 1
            self._keep(image_id, pixels)
        return pixels

    def _keep(self, image_id: str, pixels: Pixels) -> None:
        if image_id in self._pixels or pixels.nbytes > self._max_bytes:
            return
        self._pixels[image_id] = pixels
        self._num_bytes += pixels.nbytes
        while self._num_bytes > self._max_bytes:
            _, oldest = self._pixels.popitem(last=False)
            self._num_bytes -= oldest.nbytes


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
