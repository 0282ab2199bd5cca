"""What every worker process does first."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
from typing import NoReturn

from server.launch import watcher
from server.worker.framing import FrameSocket

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def connect(arguments: list[str]) -> tuple[FrameSocket, list[str]]:
    """Take over the inherited socket; returns it and the remaining arguments.

    The process asks the kernel to be ended with its parent, so that a worker deep in a model does
    not outlive a front end that was killed.
    """
    return FrameSocket(_begin(arguments, signal.SIGKILL)), arguments[2:]


def connect_with_children(arguments: list[str]) -> socket.socket:
    """Take over the inherited socket, for a worker that starts processes of its own.

    When the front end is killed, all of them end with this one: they are in its process group. The
    signal is handled by the main thread; if that is away in a model, or one of the others does not
    listen, a watcher kills them all a few seconds later. Call it before there are threads.
    """
    connection = _begin(arguments, signal.SIGTERM)
    signal.signal(signal.SIGTERM, _end_group)
    with contextlib.suppress(watcher.CannotWatchError):
        watcher.watch(int(arguments[1]), group=os.getpgid(0) == os.getpid())
    return connection


def leave_with_children(code: int) -> NoReturn:
    """Exit at once, without exit handlers, and tell all processes of the group to end.

    If the front end is there, it ends those that do not listen. If it was killed, the news of that
    may come as the end of the connection, before the signal.
    """
    sys.stderr.flush()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGTERM)
    os._exit(code)


def _begin(arguments: list[str], parent_death_signal: signal.Signals) -> socket.socket:
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s %(levelname)s worker[{os.getpid()}] %(name)s: %(message)s",
    )
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, parent_death_signal)
    if os.getppid() != int(arguments[1]):  # it has gone before the kernel was asked
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return socket.socket(fileno=int(arguments[0]))


def _end_group(number: int, _: object) -> None:
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(128 + number)
