"""Runs a Python command that ends with the process which started it, also if that is killed.

`python -m server.launch.with_parent PARENT_PID ARGUMENTS...` becomes `python ARGUMENTS...` under
the same process id. A robot works on for minutes and a server for ever when nobody is left to stop
them. They get SIGTERM, and SIGKILL if they have not ended `watcher.GRACE_S` later. Linux only;
before Linux 5.3 they are killed at once, elsewhere the command runs without this.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

from server.launch import watcher

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; kept across exec


def command(arguments: list[str]) -> list[str]:
    """The command line that runs `python ARGUMENTS` bound to this process."""
    return [sys.executable, "-m", "server.launch.with_parent", str(os.getpid()), *arguments]


def main(parent: int, arguments: list[str]) -> NoReturn:
    """Becomes the command; ends at once if the parent has gone already."""
    try:
        watcher.watch(parent)
    except watcher.CannotWatchError:
        _be_killed_with(parent)
    os.execv(sys.executable, [sys.executable, *arguments])


def _be_killed_with(parent: int) -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
