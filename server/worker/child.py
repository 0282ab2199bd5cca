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
    connection = begin(arguments, signal.SIGKILL)
    return FrameSocket(connection), arguments[1:]


def begin(arguments: list[str], parent_death_signal: signal.Signals) -> socket.socket:
    """Start logging, ask for a signal at the death of the parent, and return the socket."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s %(levelname)s worker[{os.getpid()}] %(name)s: %(message)s",
    )
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, parent_death_signal)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return socket.socket(fileno=int(arguments[0]))
