"""The ledger at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from server.core.residency.capacity import CapacityEstimate
from server.core.residency.footprint import PrefixOutcome
from server.core.residency.forecast import ForecastTable
from server.core.residency.window import WINDOW_S, WindowSums
from server.core.residency.working_set import ASSUMED_BLOCK_TOKENS


@dataclass(frozen=True)
class LedgerTotals:
    """Since the server started. Tokens leave out turns of which they are unknown.

    Attributes:
        refreshes_found, refreshes_lost: Prefixes that the engine was asked to touch, and still had
            or had lost.
    """

    turns: Mapping[PrefixOutcome, int] = field(default_factory=dict)
    cached_tokens: int = 0
    computed_tokens: int = 0
    generated_tokens: int = 0
    refreshes_found: int = 0
    refreshes_lost: int = 0


@dataclass(frozen=True)
class LedgerSnapshot:
    """Figures of the window and of the living episodes. None is unknown.

    Attributes:
        now_s: Of the snapshot, on the server's clock.
        window: Sums over the last `window_s`; a server younger than that has not filled it.
        baseline_computed_per_generated: Of healthy windows; None: none was seen so far.
        reuse_distance_blocks_p50, reuse_distance_blocks_p90: Over the newest turns.
        num_live: Admitted episodes that use the brain, with or without a turn so far.
        working_set_tokens, working_set_blocks: Contexts of the living episodes.
        forecast_blocks: The same when they have grown: each at least at PEAK_SHARE of what its task
            family reaches, and one turn ahead of its present context.
        mean_context_tokens: Of living episodes that have had a turn.
        pool_blocks, block_tokens: As the engine or the configuration tells.
        counting_block_tokens: Of the blocks that `capacity` and all distances are counted in:
            `block_tokens`, or an assumed size where that is unknown.
        measured_pool_blocks: Blocks of running turns over the engine's KV usage, the middle of the
            newest such measurements. It leaves out what an engine holds besides conversations.
        capacity: What was seen to survive and to be lost.
    """

    now_s: float = 0.0
    window_s: float = WINDOW_S
    window: WindowSums = field(default_factory=WindowSums)
    baseline_computed_per_generated: float | None = None
    reuse_distance_blocks_p50: float | None = None
    reuse_distance_blocks_p90: float | None = None
    num_live: int = 0
    working_set_tokens: int = 0
    working_set_blocks: int | None = None
    forecast_blocks: int | None = None
    mean_context_tokens: float | None = None
    pool_blocks: int | None = None
    block_tokens: int | None = None
    counting_block_tokens: int = ASSUMED_BLOCK_TOKENS
    measured_pool_blocks: int | None = None
    capacity: CapacityEstimate = field(default_factory=CapacityEstimate)
    forecasts: ForecastTable = field(default_factory=ForecastTable)
    totals: LedgerTotals = field(default_factory=LedgerTotals)

    @property
    def capacity_blocks(self) -> int | None:
        """Blocks of the engine to plan with; see CapacityEstimate.usable_blocks."""
        if self.block_tokens is None:
            return None
        return self.capacity.usable_blocks(self.pool_blocks)

    @property
    def survived_blocks(self) -> int | None:
        """Blocks of the engine that were seen to survive. None also where their size is unknown."""
        return None if self.block_tokens is None else self.capacity.survived_blocks

    @property
    def computed_tokens_per_min(self) -> float | None:
        """Prompt tokens computed. None: no turn of the window says so."""
        return self._per_minute(self.window.computed_tokens)

    @property
    def generated_tokens_per_min(self) -> float | None:
        """Output tokens of the same turns."""
        return self._per_minute(self.window.generated_tokens)

    def _per_minute(self, tokens: int) -> float | None:
        return tokens * 60.0 / self.window_s if self.window.num_measured else None
