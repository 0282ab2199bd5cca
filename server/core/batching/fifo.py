"""First come, first served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from server.core.batching.interface import Waiting
from server.core.batching.unpaced import UnpacedBatcher

PayloadT = TypeVar("PayloadT")


class FifoBatcher(UnpacedBatcher[PayloadT]):
    """Longest in the line first, as many as are there, up to `max_batch`; never waits for more."""

    name: ClassVar[str] = "fifo"

    def _choose(
        self, waiting: list[Waiting[PayloadT]], now_s: float
    ) -> Sequence[Waiting[PayloadT]]:
        return waiting
