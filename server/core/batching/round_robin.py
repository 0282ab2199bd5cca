"""Every stream in its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from server.core.batching.interface import Waiting
from server.core.batching.unpaced import UnpacedBatcher

PayloadT = TypeVar("PayloadT")


class RoundRobinBatcher(UnpacedBatcher[PayloadT]):
    """By stream number, going on after the last stream served; up to `max_batch`."""

    name: ClassVar[str] = "round_robin"
    _last_stream = -1

    def _choose(
        self, waiting: list[Waiting[PayloadT]], now_s: float
    ) -> Sequence[Waiting[PayloadT]]:
        turn = sorted(waiting, key=lambda item: (item.stream <= self._last_stream, item.stream))
        chosen = turn[: self._max_batch]
        if chosen:
            self._last_stream = chosen[-1].stream
        return chosen
