"""A small process that sees to it that another one ends, whatever that one is doing.

A process cannot promise this for itself: its signal handlers wait for the interpreter, and its own
clean-up may hang. The kernel's parent-death signal alone is no way either: it is sent for every
thread of the parent that ends while another is left (prctl(2)), so a killed parent with threads
sends several, each of which interrupts the clean-up that the one before has begun.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from pathlib import Path

#: From the end of the parent to the end of the process for good, seconds. Giving back an episode
#: takes up to 5 s if nobody answers, and stopping the robot as long.
GRACE_S = 10.0
_STDERR = 2


class CannotWatchError(Exception):
    """This system has no process descriptors (Linux 5.3 or later has)."""


def watch(parent: int, *, group: bool = False, grace_s: float = GRACE_S) -> None:
    """Leave a watcher of this process behind; it ends with this process.

    When the parent has gone it sends SIGTERM, once, and SIGKILL `grace_s` later. To be called
    before this process has threads; holds also after `exec`.

    Args:
        parent: Process id of the parent that was meant. This process ends if it has gone already.
        group: This process leads a group and the group is to end with it: what is left of it
            `grace_s` after the end of this process is killed.
        grace_s: See above, seconds.

    Raises:
        CannotWatchError: See there. Nothing is watched.
    """
    pid = os.getpid()
    try:
        watched = os.pidfd_open(parent), os.pidfd_open(pid)
    except ProcessLookupError:
        sys.exit(1)
    except (AttributeError, OSError) as error:
        raise CannotWatchError(str(error)) from error
    if os.getppid() != parent:
        sys.exit(1)
    first = os.fork()
    if first == 0:
        # In a session of its own, out of reach of signals to this group, and nobody's child.
        try:
            os.setsid()
            if os.fork() == 0:
                _Watcher(pid, *watched, group=group, grace_s=grace_s).run()
        finally:
            os._exit(0)
    os.waitpid(first, 0)
    for descriptor in watched:
        os.close(descriptor)


class _Watcher:
    def __init__(self, pid: int, parent: int, process: int, *, group: bool, grace_s: float) -> None:
        self._pid = pid
        self._parent = parent
        self._process = process
        self._group = group
        self._grace_s = grace_s

    def run(self) -> None:
        """Wait for what there is to do, and do it."""
        self._let_go()
        if self._process not in _ended(self._parent, self._process):
            self._send(signal.SIGTERM)
            if not _ended(self._process, timeout_s=self._grace_s):
                self._send(signal.SIGKILL)
                self._report()
        if self._group:
            self._end_group()

    def _let_go(self) -> None:
        """Whoever reads from the process or sends to it must notice its end."""
        kept = (_STDERR, self._parent, self._process)
        for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
            if descriptor not in kept:
                with contextlib.suppress(OSError):  # that of the folder itself
                    os.close(descriptor)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, number)

    def _report(self) -> None:
        text = f"process {self._pid} was killed: its parent has gone, and it did not end within "
        with contextlib.suppress(OSError):
            os.write(_STDERR, f"{text}{self._grace_s:g} s of SIGTERM\n".encode())

    def _end_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, 0)
            _ended(timeout_s=self._grace_s)
            os.killpg(self._pid, signal.SIGKILL)


def _ended(*processes: int, timeout_s: float | None = None) -> set[int]:
    """Wait for the end of one of these; those that have ended, none if the time ran out."""
    poll = select.poll()
    for process in processes:
        poll.register(process, select.POLLIN)
    timeout_ms = None if timeout_s is None else timeout_s * 1000.0
    return {process for process, _ in poll.poll(timeout_ms)}
