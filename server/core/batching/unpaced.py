"""What all batchers that neither pace nor refuse have in common."""

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
from server.core.batching.latency_learner import LatencyLearner
from server.core.batching.line import WaitingLine

PayloadT = TypeVar("PayloadT")


class UnpacedBatcher(Generic[PayloadT]):
    """Accepts every stream, never waits for a fuller batch, and never tells a robot when to ask.

    A subclass says which of the waiting observations go first.

    Args:
        max_batch: Most observations in a batch.
        latencies: What a batch takes; None: learned from the first batch on.
    """

    name: ClassVar[str]

    def __init__(self, max_batch: int, latencies: LatencyLearner | None = None) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch is {max_batch}; a batch holds at least 1 observation")
        self._max_batch = max_batch
        self._latencies = LatencyLearner() if latencies is None else latencies
        self._line: WaitingLine[PayloadT] = WaitingLine()
        self._rates: dict[int, StreamRate] = {}
        self._num_expired = 0

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
        expired = self._line.expire(now_s)
        self._num_expired += len(expired)
        return expired

    def take(self, now_s: float, worker: int = 0) -> Batch[PayloadT]:
        expired = self.expire(now_s)
        chosen = tuple(self._choose(list(self._line), now_s)[: self._max_batch])
        self._line.remove(chosen)
        return Batch(chosen, expired)

    def on_ready(self, worker: int, now_s: float) -> None:
        self._latencies.forget_warmth(worker)

    def on_finished(self, worker: int, batch_size: int, latency_s: float, now_s: float) -> None:
        self._latencies.add(worker, batch_size, latency_s)

    def on_lost(self, worker: int, now_s: float) -> None:
        """A batch that was lost teaches nothing."""

    def next_observation_in_s(self, stream: int, now_s: float) -> float | None:
        return None

    def status(self, now_s: float) -> TierStatus:
        return TierStatus(
            name=self.name,
            num_streams=len(self._rates),
            num_waiting=len(self._line),
            num_expired=self._num_expired,
            num_refused=0,
            cycle_s=None,
            sustainable_control_hz=None,
            latencies=self._latencies.measured(),
        )

    def _choose(
        self, waiting: list[Waiting[PayloadT]], now_s: float
    ) -> Sequence[Waiting[PayloadT]]:
        """Those to run, the most urgent first; `waiting` has the longest in the line first."""
        raise NotImplementedError
