"""Callbacks around `os.fork`, and at the end of what it made, for objects that own a thread."""

from __future__ import annotations

import multiprocessing
import os
import sys
import weakref
from collections.abc import Callable
from typing import Protocol


class ForkAware(Protocol):
    """An object with a lock that must be free, and a thread that does not exist, in a child."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


#: Python cannot unregister a fork callback, so one set of callbacks serves all objects.
_objects: weakref.WeakSet[ForkAware] = weakref.WeakSet()
#: The objects whose `before_fork` ran, so that the other two callbacks see exactly the same ones.
_forking: list[ForkAware] = []


def watch(item: ForkAware) -> None:
    """Call the three methods of `item` around every fork for as long as it lives."""
    _objects.add(item)


def at_worker_exit(close: Callable[[], object]) -> None:
    """Call `close` when this process ends, if it is a worker of `multiprocessing`.

    Such a worker, forked or served by a fork server, leaves through `os._exit`, which runs no
    `atexit` handler; it runs only finalisers of `multiprocessing` made after its start.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is not None and multiprocessing.parent_process() is not None:
        # Below 0: after the worker has joined its own children.
        util.Finalize(None, close, exitpriority=-100)


def _before() -> None:
    _forking.extend(_objects)
    for item in _forking:
        item.before_fork()


def _in_parent() -> None:
    for item in reversed(_forking):
        item.after_fork_in_parent()
    _forking.clear()


def _in_child() -> None:
    for item in reversed(_forking):
        item.after_fork_in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):  # absent where there is no fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
