"""What all batchers share, and all there is to those that do not pace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from server.core.batching.interface import (
    Accepted,
    Batch,
    StreamRate,
    TierStatus,
    Verdict,
    Waiting,
)
from server.core.batching.line import WaitingLine

PayloadT = TypeVar("PayloadT")


class UnpacedBatcher(Generic[PayloadT]):
    """Accepts every stream, never waits for a fuller batch, and never tells a robot when to ask.

    A subclass says which of the waiting observations go first.

    Args:
        max_batch: Most observations in a batch.
    """

    name: ClassVar[str]

    def __init__(self, max_batch: int) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch is {max_batch}; a batch holds at least 1 observation")
        self._max_batch = max_batch
        self._line: WaitingLine[PayloadT] = WaitingLine()
        self._rates: dict[int, StreamRate] = {}

    def __len__(self) -> int:
        return len(self._line)

    def open_stream(self, stream: int, rate: StreamRate, now_s: float) -> Verdict:
        self._rates[stream] = rate
        return Accepted()

    def close_stream(self, stream: int) -> Waiting[PayloadT] | None:
        self._rates.pop(stream, None)
        return self._line.withdraw(stream)

    def add(self, item: Waiting[PayloadT]) -> Waiting[PayloadT] | None:
        return self._line.add(item)

    def withdraw(self, stream: int) -> Waiting[PayloadT] | None:
        return self._line.withdraw(stream)

    def expire(self, now_s: float) -> tuple[Waiting[PayloadT], ...]:
        return self._line.expire(now_s)

    def take(self, now_s: float, worker: int = 0) -> Batch[PayloadT]:
        expired = self._line.expire(now_s)
        chosen = tuple(self._choose(list(self._line), now_s)[: self._max_batch])
        self._line.remove(chosen)
        return Batch(chosen, expired)

    def on_ready(self, worker: int, now_s: float) -> None:
        """Nothing to learn."""

    def on_finished(self, worker: int, batch_size: int, latency_s: float, now_s: float) -> None:
        """Nothing to learn."""

    def on_lost(self, worker: int, now_s: float) -> None:
        """Nothing to learn."""

    def next_observation_in_s(self, stream: int, now_s: float) -> float | None:
        return None

    def status(self, now_s: float) -> TierStatus:
        return TierStatus(self.name, len(self._rates), len(self._line), None, None, ())

    def _choose(
        self, waiting: list[Waiting[PayloadT]], now_s: float
    ) -> Sequence[Waiting[PayloadT]]:
        """Those to run, first the most urgent; `waiting` has the longest in the line first."""
        raise NotImplementedError
