"""What processes share that run one version of vLLM and answer on their standard output."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

from server.capacity.engine import library, study_version


def load_library(study_folder: str | Path | None) -> library.Library:
    """The study's version out of its folder; None: the installed one.

    Raises:
        InvalidArgumentError: The folder does not hold the study's version.
        MissingExtraError: There is none.
        UnsupportedError: The installed one is a version that the engine is not tested with.
    """
    return library.load() if study_folder is None else study_version.load(Path(study_folder))


def take_standard_output() -> TextIO:
    """Standard output for the caller alone: whatever libraries print goes to standard error."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out
