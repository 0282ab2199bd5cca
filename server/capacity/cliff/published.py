"""What the study published of its cliff: Qwen3.6-27B on vLLM 0.17.1, 784-token blocks."""

from __future__ import annotations

from dataclasses import dataclass

from server.capacity.cliff.protocol import WarmUp

POOLS_BLOCKS = (4270, 4396)
BLOCK_TOKENS = 784
STATE_GROUPS = 3
CONTEXT_TOKENS = 100_000
NEW_TOKENS = 3_300


@dataclass(frozen=True)
class PublishedPoint:
    """One point. `survival` is the share of the sessions that kept their whole prefix."""

    pool_blocks: int
    warm_up: WarmUp
    num_sessions: int
    survival: float

    @property
    def row(self) -> str:
        """Its name, for example "4270_batch_warm_N28"."""
        return f"{self.pool_blocks}_{self.warm_up}_warm_N{self.num_sessions}"


POINTS = (
    PublishedPoint(4270, "batch", 28, 1.0),
    PublishedPoint(4270, "batch", 32, 0.0),
    PublishedPoint(4396, "batch", 29, 0.0),
    PublishedPoint(4396, "batch", 30, 0.0),
    PublishedPoint(4396, "batch", 31, 0.0),
    PublishedPoint(4396, "sequential", 29, 1.0),
    PublishedPoint(4396, "sequential", 31, 0.0),
)
