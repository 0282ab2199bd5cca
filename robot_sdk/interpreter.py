"""How to call the Python that runs, for commands that are printed to be copied."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def python_command(executable: str | None = None, folder: Path | None = None) -> str:
    """The interpreter as a word for a shell, relative where it lies under the working folder.

    Args:
        executable: Default: the one that runs.
        folder: Default: the working folder.
    """
    path = sys.executable if executable is None else executable
    if not path:
        return "python"
    # Not resolved: a virtual environment's python is a link, and works by its own path only.
    absolute = Path(os.path.normpath(path))
    where = Path.cwd() if folder is None else folder
    short = absolute.relative_to(where) if absolute.is_relative_to(where) else absolute
    return shlex.quote(str(short))
