"""One step of lookahead: the batch that, with the one after it, makes robots wait the least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from server.core.batching.due import due_s
from server.core.batching.interface import Waiting
from server.core.batching.unpaced import UnpacedBatcher

PayloadT = TypeVar("PayloadT")


class LookaheadBatcher(UnpacedBatcher[PayloadT]):
    """By deadline; the size is tried out against the batch that would follow.

    For every size, the first so many run now and the rest right after them. The cost of a size is
    the number of control steps that robots are late by in both; the smallest cost wins, and of
    equal ones the largest batch. It knows nothing of observations that have not arrived.
    """

    name: ClassVar[str] = "lookahead"

    def _choose(
        self, waiting: list[Waiting[PayloadT]], now_s: float
    ) -> Sequence[Waiting[PayloadT]]:
        ordered = sorted(waiting, key=lambda item: due_s(item, self._rates.get(item.stream)))
        sizes = range(min(len(ordered), self._max_batch), 0, -1)
        if not sizes or self._latencies.expected_s(1) is None:
            return ordered
        return ordered[: min(sizes, key=lambda size: self._cost_steps(ordered, size, now_s))]

    def _cost_steps(self, ordered: list[Waiting[PayloadT]], size: int, now_s: float) -> float:
        first_end_s = now_s + (self._latencies.expected_s(size) or 0.0)
        cost = sum(self._late_steps(item, first_end_s) for item in ordered[:size])
        rest = ordered[size : size + self._max_batch]
        if rest:
            second_end_s = first_end_s + (self._latencies.expected_s(len(rest)) or 0.0)
            cost += sum(self._late_steps(item, second_end_s) for item in rest)
        return cost

    def _late_steps(self, item: Waiting[PayloadT], end_s: float) -> float:
        rate = self._rates.get(item.stream)
        late_s = max(0.0, end_s - due_s(item, rate))
        return late_s * (1.0 if rate is None else rate.control_hz)
