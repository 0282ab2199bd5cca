"""A batcher by the name that the configuration gives it."""

from __future__ import annotations

from typing import Any

from server.core.batching.deadline import DEFAULT_MARGIN_S, DeadlineBatcher
from server.core.batching.edf import EdfBatcher
from server.core.batching.fifo import FifoBatcher
from server.core.batching.interface import Batcher
from server.core.batching.latency_learner import LatencyLearner
from server.core.batching.latency_table import LatencyTable
from server.core.batching.lookahead import LookaheadBatcher
from server.core.batching.round_robin import RoundRobinBatcher
from server.core.batching.unpaced import UnpacedBatcher

_UNPACED: dict[str, type[UnpacedBatcher[Any]]] = {
    batcher.name: batcher
    for batcher in (FifoBatcher, RoundRobinBatcher, EdfBatcher, LookaheadBatcher)
}
#: Names of all batchers. The first one paces and refuses; the others are what it is compared with.
BATCHER_NAMES = (DeadlineBatcher.name, *_UNPACED)


def make_batcher(
    name: str,
    max_batch: int,
    num_workers: int = 1,
    table: LatencyTable | None = None,
    margin_s: float = DEFAULT_MARGIN_S,
    *,
    paces: bool = True,
    refuses: bool = True,
) -> Batcher[Any]:
    """A new batcher.

    Args:
        name: One of `BATCHER_NAMES`.
        max_batch: Most observations in a batch.
        num_workers: Workers that the policy should have.
        table: Measured latencies to begin with. None: learned from the first batch on.
        margin_s: Seconds of a cycle lost between robot and worker.
        paces: See `DeadlineBatcher`; the others never pace.
        refuses: Likewise.

    Raises:
        ValueError: The name is unknown, or the table does not reach `max_batch`.
    """
    if table is not None and table.largest_batch < max_batch:
        raise ValueError(
            f"max_batch is {max_batch}, but the latency table of {table.policy} ends at "
            f"{table.largest_batch}; lower max_batch or measure larger batches"
        )
    latencies = LatencyLearner(table)
    if name == DeadlineBatcher.name:
        return DeadlineBatcher(
            max_batch, latencies, num_workers, margin_s, paces=paces, refuses=refuses
        )
    if name not in _UNPACED:
        raise ValueError(f"batcher is {name!r}; allowed: {', '.join(BATCHER_NAMES)}")
    return _UNPACED[name](max_batch, latencies)
