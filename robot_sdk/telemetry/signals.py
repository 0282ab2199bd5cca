"""Turning SIGTERM into an orderly exit, for programs that ask for it."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def exit_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit (code 143) in the main thread, so that exit handlers run.

    By default SIGTERM ends a Python process on the spot: no `finally`, no `with`, and the last
    spans are lost. Call this from a program's main function; the SDK never does so by itself.

    The first SIGTERM counts. Those after it are ignored, because some who stop programs send it
    twice and a second exception would break off what the first one has begun. A program whose exit
    handlers hang is ended by SIGKILL.

    The exception comes wherever the main thread is. In the middle of a call of gRPC it may leave
    one of gRPC's locks taken, and closing the connection then waits for ever. A program that is
    often stopped this way leaves its main thread waiting and runs its episodes in another.

    Raises:
        ValueError: Called outside the main thread (from `signal.signal`).
    """
    signal.signal(signal.SIGTERM, _exit)


def _exit(signal_number: int, frame: FrameType | None) -> None:
    signal.signal(signal_number, signal.SIG_IGN)
    sys.exit(128 + signal_number)
