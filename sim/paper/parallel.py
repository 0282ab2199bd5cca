"""A function of many items in several processes, none of which outlives an interruption."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_processes(
    function: Callable[[ItemT], ResultT], items: Sequence[ItemT], num_processes: int
) -> Iterator[ResultT]:
    """`function` of every item, in order. With one process: in this one.

    When the caller is interrupted, or stops reading, the processes are ended at once and what they
    were at is lost.
    """
    if num_processes == 1:
        yield from map(function, items)
        return
    before = set(active_children())
    # Ctrl-C reaches the whole process group; this process alone decides what becomes of the others.
    pool = ProcessPoolExecutor(
        num_processes,
        get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
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
