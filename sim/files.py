"""Leaving a file so that nobody ever sees half of it."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and then move it there; what was there before stays until then.

    What is no regular file (a device, a pipe) is written into: taking its place would destroy it.

    Raises:
        OSError: The file cannot be written; nothing new is left.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()  # a link stays one
    part = target.with_name(target.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
