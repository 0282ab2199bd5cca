"""Earliest deadline first, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from server.core.batching.due import due_s
from server.core.batching.interface import Waiting
from server.core.batching.unpaced import UnpacedBatcher

PayloadT = TypeVar("PayloadT")


class EdfBatcher(UnpacedBatcher[PayloadT]):
    """Those whose rows run out first, as many as are there, up to `max_batch`."""

    name: ClassVar[str] = "edf"

    def _choose(
        self, waiting: list[Waiting[PayloadT]], now_s: float
    ) -> Sequence[Waiting[PayloadT]]:
        return sorted(waiting, key=lambda item: due_s(item, self._rates.get(item.stream)))
