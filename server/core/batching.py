"""Which observations a free policy worker takes next.

`Batcher` is the seam: the driver adds what arrives, and asks for a batch whenever a worker is free.
`FifoBatcher` is the plain one. A stream has at most one observation waiting: a newer one takes the
place of the older, because a chunk for a stale observation helps nobody.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

PayloadT = TypeVar("PayloadT")


@dataclass(frozen=True)
class Waiting(Generic[PayloadT]):
    """One observation that waits for a worker.

    Attributes:
        stream: Stream it belongs to, unique in the server.
        arrived_s: When it arrived, server's monotonic clock.
        expires_at_s: When its chunk is of no more use, same clock; None is never.
        payload: Whatever the driver needs; never looked at here.
    """

    stream: int
    sequence: int
    arrived_s: float
    expires_at_s: float | None
    payload: PayloadT

    def is_late(self, now_s: float) -> bool:
        return self.expires_at_s is not None and now_s >= self.expires_at_s


@dataclass(frozen=True)
class Batch(Generic[PayloadT]):
    """What to run now, and what was given up because its time had passed."""

    items: tuple[Waiting[PayloadT], ...]
    expired: tuple[Waiting[PayloadT], ...]


class Batcher(Protocol[PayloadT]):
    """Order and size of batches."""

    def __len__(self) -> int:
        """Observations that wait."""

    def add(self, item: Waiting[PayloadT]) -> Waiting[PayloadT] | None:
        """Take an observation in. Returns the older one of its stream that it replaced."""

    def remove_stream(self, stream: int) -> Waiting[PayloadT] | None:
        """The stream is gone; returns what it had waiting."""

    def expire(self, now_s: float) -> tuple[Waiting[PayloadT], ...]:
        """Give up what has waited past its time, whether or not a worker is free."""

    def take(self, now_s: float) -> Batch[PayloadT]:
        """A batch for a worker that is free now. Empty `items`: nothing to do."""

    def next_observation_in_s(self, stream: int, now_s: float) -> float | None:
        """When this stream should ask again, seconds from now. None: whenever it needs to."""


class FifoBatcher(Generic[PayloadT]):
    """Oldest stream first, as many as are there, up to `max_batch`; never waits for more.

    A stream keeps its place in the line when a newer observation replaces the waiting one.
    Otherwise a robot that asks faster than the server answers would always be last.
    """

    def __init__(self, max_batch: int) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch is {max_batch}; a batch holds at least 1 observation")
        self._max_batch = max_batch
        self._waiting: OrderedDict[int, Waiting[PayloadT]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Waiting[PayloadT]) -> Waiting[PayloadT] | None:
        replaced = self._waiting.get(item.stream)
        self._waiting[item.stream] = item
        return replaced

    def remove_stream(self, stream: int) -> Waiting[PayloadT] | None:
        return self._waiting.pop(stream, None)

    def expire(self, now_s: float) -> tuple[Waiting[PayloadT], ...]:
        late = tuple(item for item in self._waiting.values() if item.is_late(now_s))
        for item in late:
            del self._waiting[item.stream]
        return late

    def take(self, now_s: float) -> Batch[PayloadT]:
        items: list[Waiting[PayloadT]] = []
        expired: list[Waiting[PayloadT]] = []
        while self._waiting and len(items) < self._max_batch:
            _, item = self._waiting.popitem(last=False)
            (expired if item.is_late(now_s) else items).append(item)
        return Batch(tuple(items), tuple(expired))

    def next_observation_in_s(self, stream: int, now_s: float) -> float | None:
        return None
