"""The observations that wait: at most one per stream, in the order in which their streams came."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from server.core.batching.interface import Waiting

PayloadT = TypeVar("PayloadT")


class WaitingLine(Generic[PayloadT]):
    """A newer observation takes the place of the older one of its stream.

    A chunk for a stale observation helps nobody. The stream keeps its place in the line; otherwise
    a robot that asks faster than the server answers would always be last.
    """

    def __init__(self) -> None:
        self._items: OrderedDict[int, Waiting[PayloadT]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Waiting[PayloadT]]:
        """Longest in the line first."""
        return iter(self._items.values())

    def __contains__(self, stream: int) -> bool:
        return stream in self._items

    def add(self, item: Waiting[PayloadT]) -> Waiting[PayloadT] | None:
        """Returns the observation that it replaced."""
        replaced = self._items.get(item.stream)
        self._items[item.stream] = item
        return replaced

    def withdraw(self, stream: int) -> Waiting[PayloadT] | None:
        """Take the stream's observation out of the line."""
        return self._items.pop(stream, None)

    def remove(self, items: Iterable[Waiting[PayloadT]]) -> None:
        """Take these out; they are in the line."""
        for item in items:
            del self._items[item.stream]

    def expire(self, now_s: float) -> tuple[Waiting[PayloadT], ...]:
        """Take out and return what has waited past its time."""
        late = tuple(item for item in self._items.values() if item.is_late(now_s))
        self.remove(late)
        return late
