"""Turning SIGTERM into an orderly exit, for programs that ask for it."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def exit_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit (code 143) in the main thread, so that exit handlers run.

    By default SIGTERM ends a Python process on the spot: no `finally`, no `with`, and the last
    spans are lost. Call this from a program's main function; the SDK never does so by itself.

    Raises:
        ValueError: Called outside the main thread (from `signal.signal`).
    """
    signal.signal(signal.SIGTERM, _exit)


def _exit(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)
