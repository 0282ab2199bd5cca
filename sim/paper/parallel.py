"""A function of many items in several processes, none of which outlives who asked for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_processes(
    function: Callable[[ItemT], ResultT], items: Sequence[ItemT], num_processes: int
) -> Iterator[ResultT]:
    """`function` of every item, in order. With one process: in this one.

    When the caller is interrupted, or stops reading, the processes are ended at once and what they
    were at is lost. So it is when the caller is killed.
    """
    if num_processes == 1:
        yield from map(function, items)
        return
    before = set(active_children())
    pool = ProcessPoolExecutor(num_processes, get_context("spawn"), initializer=_begin)
    try:
        # Not pool.map: it cancels futures when its reader stops, and the pool's own thread fails
        # over cancelled futures when its processes end.
        for future in [pool.submit(function, item) for item in items]:
            yield future.result()
    except BaseException:
        for child in set(active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown()


def _begin() -> None:
    # Ctrl-C reaches the whole process group; the parent alone decides what becomes of the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The pool's processes hold both ends of its queue and would wait at it for ever.
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # this is a process of the pool
    parent.join()
    os._exit(1)
