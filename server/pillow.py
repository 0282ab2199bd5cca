"""Pillow, which the extra [server] brings: loaded where a picture is worked on, and not before."""

from __future__ import annotations

from types import ModuleType

from robot_sdk.errors import MissingExtraError


def pillow_image(message: str) -> ModuleType:
    """PIL.Image.

    Args:
        message: Of the error: what needs it.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError(message, hint="pip install -e '.[server]'") from error
    return Image
