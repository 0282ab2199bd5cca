"""SIGTERM is what stops a program that nobody watches; it ends one as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """The first SIGTERM inside raises KeyboardInterrupt in the main thread, so that what there is
    is kept. Those after it are ignored: some who stop programs send it twice, and a second one
    would break off the keeping. Outside the main thread nothing changes.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, signal.SIG_IGN)
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
