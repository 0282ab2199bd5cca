"""Files that a command line names: what is there, and leaving one of which nobody sees half."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """As `Path.is_file`, and False for a name that no file can have: too long, or unreadable."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_same_file(one: Path, other: Path) -> bool:
    """Both are there and are one file, by whatever name."""
    return is_file(one) and is_file(other) and one.samefile(other)


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
