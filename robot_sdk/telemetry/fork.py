"""Callbacks around `os.fork` for objects that own a lock and a thread."""

from __future__ import annotations

import os
import weakref
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
