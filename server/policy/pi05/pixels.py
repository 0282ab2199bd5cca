"""Camera pictures as the picture tower takes them: square, without distortion, from -1 to 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from robot_sdk.errors import ObservationMismatchError


def check_picture(name: str, picture: object, size: tuple[int, int] | None) -> None:
    """Refuse what is not a picture of this server's one convention.

    Args:
        name: Its key, for the message.
        picture: Anything.
        size: Exact (height, width), pixels; None takes any.

    Raises:
        ObservationMismatchError: Not uint8 (H, W, 3), empty, or of another size.
    """
    height, width = size or (0, 0)
    wanted = f"uint8 ({height or 'any'}, {width or 'any'}, 3)"
    if not isinstance(picture, np.ndarray):
        found = type(picture).__name__
    else:
        found = f"{picture.dtype} {picture.shape}"
        fits = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
        if fits and min(picture.shape) > 0 and size in (None, picture.shape[:2]):
            return
    raise ObservationMismatchError(
        f"{name} is no picture that the policy can use",
        field=name,
        value=found,
        allowed=(wanted,),
    )


def prepare_pictures(
    pictures: Sequence[NDArray[np.uint8]],
    side_px: int,
    rotate_180: Sequence[bool],
    antialias: bool,
    device: torch.device,
) -> Tensor:
    """Pictures as (N, 3, side_px, side_px) float32 in [-1, 1].

    Args:
        pictures: N of (H, W, 3) uint8 RGB, top row first; sizes may differ.
        side_px: Side of the result.
        rotate_180: For each, whether to turn it upside down first, as LIBERO's training pictures
            were.
        antialias: Average over the pixels that fall together when a picture shrinks, as training
            with openpi did; False reads between the two nearest, as lerobot does.
        device: Where the work is done and the result is.
    """
    turned = [p[::-1, ::-1] if turn else p for p, turn in zip(pictures, rotate_180, strict=True)]
    if len({picture.shape for picture in turned}) == 1:
        groups = [np.stack(turned)]
    else:
        groups = [np.ascontiguousarray(picture)[None] for picture in turned]
    ready = []
    for group in groups:
        raw = torch.from_numpy(group).to(device).permute(0, 3, 1, 2)
        ready.append(resize_with_pad(raw.float() / 255.0, side_px, antialias) * 2.0 - 1.0)
    return torch.cat(ready)


def resize_with_pad(pictures: Tensor, side_px: int, antialias: bool) -> Tensor:
    """Fit pictures into a square and leave the rest black, the picture in the middle.

    Args:
        pictures: (N, 3, H, W), float32 in [0, 1].
        side_px: Side of the square.
        antialias: See `prepare_pictures`.

    Returns:
        (N, 3, side_px, side_px), float32 in [0, 1].
    """
    height, width = pictures.shape[2:]
    if height == width == side_px:
        return pictures
    ratio = max(height, width) / side_px
    new_height, new_width = max(int(height / ratio), 1), max(int(width / ratio), 1)
    resized = F.interpolate(
        pictures,
        size=(new_height, new_width),
        mode="bilinear",
        align_corners=False,
        antialias=antialias,
    ).clamp(0.0, 1.0)
    top, left = (side_px - new_height) // 2, (side_px - new_width) // 2
    bottom, right = side_px - new_height - top, side_px - new_width - left
    return F.pad(resized, (left, right, top, bottom))
