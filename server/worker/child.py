"""What every worker process does first."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys

from server.worker.framing import FrameSocket

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def connect(arguments: list[str]) -> tuple[FrameSocket, list[str]]:
    """Take over the inherited socket; returns it and the remaining arguments.

    The process asks the kernel to be ended with its parent, so that a worker deep in a model does
    not outlive a front end that was killed.
    """
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s %(levelname)s worker[{os.getpid()}] %(name)s: %(message)s",
    )
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return FrameSocket(socket.socket(fileno=int(arguments[0]))), arguments[1:]
