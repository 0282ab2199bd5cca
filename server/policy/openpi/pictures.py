"""Camera pictures as a remote policy wants them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from server.pillow import pillow_image
from server.policy.openpi.options import Picture


def prepare(pixels: NDArray[np.uint8], picture: Picture) -> NDArray[np.uint8]:
    """Turned, fitted and laid out, in this order.

    Args:
        pixels: (H, W, 3) RGB, top row first.
        picture: What is wanted.

    Returns:
        (height_px, width_px, 3), or (3, height_px, width_px) with layout "chw".
    """
    if picture.rotate_180:
        pixels = pixels[::-1, ::-1]
    if picture.height_px:
        pixels = fit(pixels, picture.height_px, picture.width_px)
    return pixels.transpose(2, 0, 1) if picture.layout == "chw" else pixels


def fit(pixels: NDArray[np.uint8], height_px: int, width_px: int) -> NDArray[np.uint8]:
    """The picture as large as fits, bilinear, in the middle of a black one of that size.

    Rounds sizes and margins down, as openpi_client.image_tools.resize_with_pad does: the remote
    policy was trained on pictures made so.
    """
    old_height, old_width = pixels.shape[:2]
    if (old_height, old_width) == (height_px, width_px):
        return pixels
    image_module = pillow_image("changing the size of pictures needs Pillow")
    ratio = max(old_width / width_px, old_height / height_px)
    new_height, new_width = max(int(old_height / ratio), 1), max(int(old_width / ratio), 1)
    small = image_module.fromarray(np.ascontiguousarray(pixels)).resize(
        (new_width, new_height), image_module.Resampling.BILINEAR
    )
    fitted = np.zeros((height_px, width_px, 3), np.uint8)
    top, left = (height_px - new_height) // 2, (width_px - new_width) // 2
    fitted[top : top + new_height, left : left + new_width] = np.asarray(small)
    return fitted
