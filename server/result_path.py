"""Can a result be written where it is to go? Asked before the work, not after it."""

from __future__ import annotations

from pathlib import Path

from robot_sdk.errors import InvalidArgumentError


def check_result_path(path: Path, option: str) -> None:
    """Make the folder of a result. A file that is there stays as it is; a device or a pipe passes.

    Raises:
        InvalidArgumentError: The file cannot be written. `option` names where it came from.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            return  # a pipe nobody reads from yet would hold up whoever opens it
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        with path.open("a", encoding="utf-8"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise InvalidArgumentError(
            f"the result cannot be written: {error.strerror}",
            field=option,
            value=path,
            allowed=("a file in a folder that can be written",),
        ) from error
