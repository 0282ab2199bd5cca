"""Videos and contact sheets of an episode."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import MissingExtraError
from sim.libero.env import CONTROL_HZ, LiberoEnv

Picture = NDArray[np.uint8]

#: One frame per so many control steps. A picture costs 50 to 110 ms where software draws it.
FRAME_EVERY_STEPS = 4
#: Films run at twice the robot's speed.
VIDEO_FPS = 2.0 * CONTROL_HZ / FRAME_EVERY_STEPS
FRAME_SIZE = 256
_MAX_SHEET_FRAMES = 20
_SHEET_COLUMNS = 5
_CAPTION_HEIGHT = 18


@dataclass(frozen=True)
class Frame:
    """One picture: uint8 (H, W, 3), the step it shows, and a few words."""

    picture: Picture
    step: int
    caption: str


class Recorder:
    """Collects frames while the robot moves. Called on the control thread only.

    Args:
        env: The environment to look at.
        caption: Words for the present moment, for example the running tool.
        camera: LIBERO's name of the camera.
    """

    def __init__(
        self, env: LiberoEnv, caption: Callable[[], str], camera: str = "agentview"
    ) -> None:
        self._env = env
        self._caption = caption
        self._camera = camera
        self.frames: list[Frame] = []

    def on_step(self, step: int) -> None:
        """A control step is over."""
        if step % FRAME_EVERY_STEPS == 0:
            self.take(step)

    def take(self, step: int) -> None:
        """Take a frame now."""
        picture = self._env.render(self._camera, FRAME_SIZE, FRAME_SIZE)
        self.frames.append(Frame(picture, step, self._caption()))


def write_video(frames: Sequence[Frame], stem: Path) -> Path:
    """Write an MP4, or a GIF where no encoder is installed; returns the path with its suffix."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    pictures = [frame.picture for frame in frames]
    if importlib.util.find_spec("imageio_ffmpeg") is not None:
        path = stem.with_name(stem.name + ".mp4")
        _write_mp4(pictures, path)
        return path
    path = stem.with_name(stem.name + ".gif")
    images = [_pillow().fromarray(picture) for picture in pictures]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=round(1000 / VIDEO_FPS), loop=0
    )
    return path


def write_contact_sheet(frames: Sequence[Frame], path: Path, title: str) -> Path:
    """Write a PNG with up to 20 frames, evenly chosen, each with its step and caption."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image_module = _pillow()
    from PIL import ImageDraw

    count = min(len(frames), _MAX_SHEET_FRAMES)
    chosen = [frames[i] for i in np.linspace(0, len(frames) - 1, count).round().astype(int)]
    rows = math.ceil(count / _SHEET_COLUMNS)
    cell_height = FRAME_SIZE + _CAPTION_HEIGHT
    size = (_SHEET_COLUMNS * FRAME_SIZE, rows * cell_height + _CAPTION_HEIGHT)
    sheet = image_module.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    draw.text((4, 3), title, fill="black")
    for index, frame in enumerate(chosen):
        x = index % _SHEET_COLUMNS * FRAME_SIZE
        y = index // _SHEET_COLUMNS * cell_height + _CAPTION_HEIGHT
        sheet.paste(image_module.fromarray(frame.picture), (x, y + _CAPTION_HEIGHT))
        draw.text((x + 4, y + 3), f"step {frame.step}  {frame.caption}", fill="black")
    sheet.save(path)
    return path


def _write_mp4(pictures: Sequence[Picture], path: Path) -> None:
    imageio_ffmpeg = importlib.import_module("imageio_ffmpeg")
    height, width = pictures[0].shape[:2]
    writer = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=VIDEO_FPS, quality=7, macro_block_size=2
    )
    writer.send(None)
    try:
        for picture in pictures:
            writer.send(np.ascontiguousarray(picture))
    finally:
        writer.close()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "videos and contact sheets need Pillow",
            hint='install it with: pip install -e ".[sim]"',
        ) from error
    return Image
