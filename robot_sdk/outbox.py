"""Messages on their way from any thread into one outgoing stream."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_NEWEST = object()
_CLOSED = object()


class Outbox(Generic[T]):
    """A queue in order, with one slot in which a newer item replaces an older one.

    gRPC pulls from it in a thread of its own and pulls the next item only when the last one has
    been written. So the slot bounds memory: a stalled server costs one item, not a backlog.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._newest: T | None = None
        self._closed = False

    def put(self, item: T) -> None:
        """Append an item. Ignored once closed."""
        if not self._closed:
            self._queue.put(item)

    def put_newest(self, item: T) -> T | None:
        """Put `item` into the slot and return the one that it replaced, if that had not left."""
        with self._lock:
            if self._closed:
                return None
            replaced, self._newest = self._newest, item
        if replaced is None:
            self._queue.put(_NEWEST)
        return replaced

    def close(self) -> None:
        """End the iteration after what is queued. May be called more than once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._queue.put(_CLOSED)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = self._queue.get()
        if item is _CLOSED:
            # Kept for whoever iterates again, so that no reader waits for ever.
            self._queue.put(_CLOSED)
            raise StopIteration
        if item is _NEWEST:
            with self._lock:
                newest, self._newest = self._newest, None
            assert newest is not None  # one marker per filled slot
            return newest
        return item  # type: ignore[return-value]
