"""Whether results can be left where the caller wants them, known before anything is computed."""

from __future__ import annotations

import tempfile
from pathlib import Path


def why_unusable(folder: Path) -> str | None:
    """Why nothing can be written into a folder; None: it can. Makes the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"cannot write into {folder}: {error.strerror}"
