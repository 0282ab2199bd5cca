"""The prefix ledger: what every turn found in the cache, and what that says about the fleet."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from dataclasses import dataclass, replace

from robot_sdk.messages import TokenUsage
from server.core.residency.alerts import MIN_COUNTED
from server.core.residency.capacity import CapacityLearner
from server.core.residency.footprint import PrefixOutcome, TurnFootprint, footprint_of
from server.core.residency.forecast import PEAK_SHARE, FamilyHistories, ForecastTable
from server.core.residency.healthy_ratio import HEALTHY_HIT, HealthyRatio
from server.core.residency.refresh import PrefixRefresher, RefreshedPrefix
from server.core.residency.reuse_distance import ReuseDistances
from server.core.residency.snapshot import LedgerSnapshot, LedgerTotals
from server.core.residency.window import WINDOW_S, PrefixWindow
from server.core.residency.working_set import (
    ASSUMED_BLOCK_TOKENS,
    LiveContext,
    WorkingSet,
    blocks_of,
)

#: Newest reuse distances that the quantiles are taken from.
_NUM_DISTANCES = 256
#: KV usage from which on it measures the pool, and how many such measurements are enough and kept.
_LEAST_USAGE = 0.2
_ENOUGH_MEASURED = 16
_NUM_MEASURED = 64


@dataclass(frozen=True)
class CountedTurn:
    """A turn as the ledger counted it.

    Attributes:
        reuse_distance_blocks: Blocks that were in the way when it began; see ReuseDistances. None
            at an episode's first turn.
        needed_blocks: The same plus the episode's own prefix: a least-recently-used pool of this
            size would just have kept it.
        live_blocks: Contexts of all living episodes when it began. What a turn needs beyond them is
            what the dead and the stale took.
        refresh_limit_blocks: Beyond which prefixes were refreshed then; None: none were.
    """

    episode_id: str
    task_family: str
    footprint: TurnFootprint
    outcome: PrefixOutcome
    reuse_distance_blocks: int | None
    needed_blocks: int | None
    live_blocks: int = 0
    num_live: int = 1
    refresh_limit_blocks: int | None = None


@dataclass(frozen=True)
class _Begun:
    distance_blocks: int | None
    live_blocks: int
    num_live: int
    refresh_limit_blocks: int | None


class PrefixLedger:
    """Counts turns. Pure: no clock, no engine; constant or logarithmic time per turn.

    An episode is begun when it is admitted and ended once. Turns of episodes that are not inside
    are ignored: a late one must not bring an ended episode back.

    Args:
        window_s: Span of the hit rate and the token rates.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window = PrefixWindow(window_s)
        self._ratio = HealthyRatio(window_s)
        self._histories = FamilyHistories()
        self._totals: Counter[PrefixOutcome] = Counter()
        self._cached_tokens = 0
        self._computed_tokens = 0
        self._generated_tokens = 0
        self._refresh_limit_blocks: int | None = None
        self._refreshes_found = 0
        self._refreshes_lost = 0
        self._pool_blocks: int | None = None
        self._block_tokens: int | None = None
        self._snapshot_interval_tokens: int | None = None
        self._working_set = WorkingSet(ASSUMED_BLOCK_TOKENS)
        self._start_counting_blocks()

    def set_pool(
        self,
        pool_blocks: int | None,
        block_tokens: int | None,
        snapshot_interval_tokens: int | None = None,
    ) -> None:
        """What the engine says of its pool; see `EngineGauges`.

        Another block size makes old block counts void.
        """
        self._pool_blocks = pool_blocks
        self._snapshot_interval_tokens = snapshot_interval_tokens
        if block_tokens == self._block_tokens:
            return
        self._block_tokens = block_tokens
        contexts = list(self._working_set)
        self._working_set = WorkingSet(self._effective_block_tokens)
        for context in contexts:
            self._working_set.put(context)
        self._start_counting_blocks()

    def see_usage(self, kv_cache_usage: float | None, requests_waiting: int | None) -> None:
        """The engine's gauges were read.

        Its usage is the share of the pool that running turns hold, and their conversations are
        known: together they measure the pool. A request that waits holds nothing yet, and a low
        usage is too coarse.
        """
        held_blocks = self._distances.held_blocks
        if kv_cache_usage is None or kv_cache_usage < _LEAST_USAGE or requests_waiting:
            return
        if held_blocks:
            self._measured_blocks.append(held_blocks / kv_cache_usage)

    def begin_episode(self, episode_id: str, task_family: str) -> None:
        """An episode was admitted."""
        if self._working_set.get(episode_id) is None:
            self._working_set.put(LiveContext(episode_id, task_family))

    def begin_turn(self, episode_id: str) -> None:
        """A turn goes to the engine now. Without this it counts as begun when it is committed.

        Args:
            episode_id: Without effect if it is not inside.
        """
        if self._working_set.get(episode_id) is not None:
            self._begun[episode_id] = _Begun(
                self._distances.begin_turn(episode_id),
                self._working_set.total_blocks,
                len(self._working_set),
                self._refresh_limit_blocks,
            )

    def abandon_turn(self, episode_id: str) -> None:
        """A turn that has begun will not be recorded. Without effect if none is on."""
        if self._begun.pop(episode_id, None) is not None:
            self._distances.abandon_turn(episode_id)

    def refreshes_are_due(self, now_s: float) -> bool:
        """Whether it is time for `due_refreshes`."""
        return self._refresher.is_due(now_s)

    def due_refreshes(self, limit_blocks: int | None, now_s: float) -> list[str]:
        """Episodes whose prefix the engine is to touch now; for each `end_refresh` must follow.

        Empty while prefixes are being lost and the contexts inside are more than the limit: the
        pool is too small for them then, and whatever is touched pushes out another, which is
        computed anew, without end. If they are not, losses end once all have been touched.

        Args:
            limit_blocks: What a prefix may need of the pool before it is refreshed. None: nothing
                is refreshed.
            now_s: Server's clock.
        """
        self._refresh_limit_blocks = limit_blocks
        if limit_blocks is None or (
            self._working_set.total_blocks > limit_blocks and self._is_losing(now_s)
        ):
            self._refresher.put_off(now_s)
            return []
        due = self._refresher.choose(self._distances.needed_blocks(), limit_blocks, now_s)
        for episode_id in due:
            self._distances.begin_refresh(episode_id)
        return due

    def end_refresh(
        self, episode_id: str, found: bool | None, now_s: float
    ) -> RefreshedPrefix | None:
        """A refresh has ended.

        Args:
            episode_id: As `due_refreshes` gave it; the episode may have ended meanwhile.
            found: Whether the whole prefix was still there; None: nothing was done.
            now_s: Server's clock.

        Returns:
            None where it says nothing.
        """
        refreshed = self._refresher.done(episode_id, found, now_s)
        if self._working_set.get(episode_id) is None:
            return None
        self._distances.end_refresh(episode_id, found)
        if refreshed is None:
            return None
        if refreshed.found:
            self._refreshes_found += 1
        else:
            self._refreshes_lost += 1
        self._capacity.add(refreshed.needed_blocks, refreshed.found, now_s)
        return refreshed

    def record_turn(
        self, episode_id: str, usage: TokenUsage, now_s: float, is_rebuild: bool = False
    ) -> CountedTurn | None:
        """A turn was committed.

        Args:
            episode_id: Of an episode that was begun and not ended.
            usage: As its engine counted it.
            now_s: Server's clock; must not run backwards.
            is_rebuild: Older turns were dropped before it (compaction).

        Returns:
            None if the episode is not inside or the engine counts no tokens.
        """
        context = self._working_set.get(episode_id)
        if context is None:
            return None
        block_tokens = self._effective_block_tokens
        footprint = footprint_of(
            usage,
            context,
            is_rebuild,
            now_s,
            block_tokens=block_tokens,
            snapshot_interval_tokens=self._snapshot_interval_tokens,
        )
        if footprint is None:
            if self._begun.pop(episode_id, None) is not None:
                self._distances.end_turn(
                    episode_id, blocks_of(context.context_tokens, block_tokens)
                )
            return None
        outcome = footprint.outcome
        self._count(footprint, outcome)
        self._window.add(footprint, outcome)
        self._ratio.look(self._window.sums, now_s)
        if episode_id not in self._begun:
            self.begin_turn(episode_id)
        begun = self._begun.pop(episode_id)
        self._put_context(context, footprint)
        own_blocks = blocks_of(footprint.expected_prefix_tokens, block_tokens)
        old_blocks = blocks_of(context.context_tokens, block_tokens)
        left_blocks = 0
        if outcome is PrefixOutcome.MISS:
            left_blocks = old_blocks
        elif is_rebuild:
            left_blocks = max(old_blocks - footprint.expected_prefix_tokens // block_tokens, 0)
        self._distances.end_turn(
            episode_id, blocks_of(footprint.context_tokens, block_tokens), left_blocks
        )
        distance = begun.distance_blocks
        needed = None
        if distance is not None:
            self._newest_distances.append(distance)
            needed = distance + own_blocks
            if outcome in (PrefixOutcome.HIT, PrefixOutcome.MISS):
                self._capacity.add(needed, outcome is PrefixOutcome.HIT, now_s)
        return CountedTurn(
            episode_id,
            context.task_family,
            footprint,
            outcome,
            distance,
            needed,
            begun.live_blocks,
            begun.num_live,
            begun.refresh_limit_blocks,
        )

    def end_episode(self, episode_id: str, went_to_its_end: bool) -> LiveContext | None:
        """An episode is no more; its context leaves the working set.

        Args:
            episode_id: Without effect if it is not inside.
            went_to_its_end: Whether it says how long such episodes become. One that was cut off
                does not.

        Returns:
            What was known of it.
        """
        context = self._working_set.remove(episode_id)
        self._distances.forget(episode_id)
        self._begun.pop(episode_id, None)
        if context is not None and went_to_its_end and context.num_turns:
            self._histories.ended(context.task_family, context.peak_tokens, context.num_turns)
        return context

    def context(self, episode_id: str) -> LiveContext | None:
        """What is known of an episode inside."""
        return self._working_set.get(episode_id)

    @property
    def forecasts(self) -> ForecastTable:
        return self._histories.table

    @property
    def totals(self) -> LedgerTotals:
        """Since the ledger was made."""
        return LedgerTotals(
            dict(self._totals),
            self._cached_tokens,
            self._computed_tokens,
            self._generated_tokens,
            self._refreshes_found,
            self._refreshes_lost,
        )

    def snapshot(self, now_s: float) -> LedgerSnapshot:
        """All figures as of now; costs the number of living episodes."""
        self._window.expire(now_s)
        knows_blocks = self._block_tokens is not None
        num_with_turns = self._working_set.num_with_turns
        total_tokens = self._working_set.total_tokens
        return LedgerSnapshot(
            now_s=now_s,
            window_s=self._window.window_s,
            window=replace(self._window.sums),
            baseline_computed_per_generated=self._ratio.baseline,
            reuse_distance_blocks_p50=self._distance(0.5) if knows_blocks else None,
            reuse_distance_blocks_p90=self._distance(0.9) if knows_blocks else None,
            num_live=len(self._working_set),
            working_set_tokens=total_tokens,
            working_set_blocks=self._working_set.total_blocks if knows_blocks else None,
            forecast_blocks=self._forecast_blocks() if knows_blocks else None,
            mean_context_tokens=total_tokens / num_with_turns if num_with_turns else None,
            pool_blocks=self._pool_blocks,
            block_tokens=self._block_tokens,
            counting_block_tokens=self._effective_block_tokens,
            measured_pool_blocks=self._measured_pool_blocks() if knows_blocks else None,
            capacity=self._capacity.estimate(now_s),
            forecasts=self._histories.table,
            totals=self.totals,
        )

    def _is_losing(self, now_s: float) -> bool:
        self._window.expire(now_s)
        is_low = self._window.sums.hit_is_below(HEALTHY_HIT, MIN_COUNTED)
        return is_low or self._refresher.is_losing(now_s)

    @property
    def _effective_block_tokens(self) -> int:
        return self._block_tokens or ASSUMED_BLOCK_TOKENS

    def _start_counting_blocks(self) -> None:
        self._distances = ReuseDistances()
        self._begun: dict[str, _Begun] = {}
        self._newest_distances: deque[int] = deque(maxlen=_NUM_DISTANCES)
        self._capacity = CapacityLearner()
        self._measured_blocks: deque[float] = deque(maxlen=_NUM_MEASURED)
        # What refreshes that are on will tell was counted in the old blocks, so they are forgotten.
        self._refresher = PrefixRefresher()
        self._refresh_limit_blocks = None

    def _count(self, footprint: TurnFootprint, outcome: PrefixOutcome) -> None:
        self._totals[outcome] += 1
        self._cached_tokens += footprint.cached_tokens or 0
        self._computed_tokens += footprint.computed_tokens or 0
        self._generated_tokens += footprint.output_tokens

    def _put_context(self, context: LiveContext, footprint: TurnFootprint) -> None:
        tokens = footprint.context_tokens
        if not footprint.is_rebuild:
            grown = max(tokens - context.context_tokens, 0)
            self._histories.turn(context.task_family, context.num_turns, grown)
            if context.num_turns:
                self._histories.grew(context.task_family, grown)
        self._working_set.put(
            replace(
                context,
                context_tokens=tokens,
                prompt_tokens=footprint.input_tokens,
                peak_tokens=max(context.peak_tokens, tokens),
                num_turns=context.num_turns + 1,
                last_turn_s=footprint.committed_s,
            )
        )

    def _forecast_blocks(self) -> int:
        table, block_tokens = self._histories.table, self._effective_block_tokens
        total = 0
        for context in self._working_set:
            forecast = table.of(context.task_family)
            grown = context.context_tokens + (forecast.growth_tokens_per_turn or 0.0)
            peak = PEAK_SHARE * (forecast.peak_tokens or 0.0)
            total += blocks_of(max(grown, peak), block_tokens)
        return total

    def _measured_pool_blocks(self) -> int | None:
        if len(self._measured_blocks) < _ENOUGH_MEASURED:
            return None
        return int(statistics.median(self._measured_blocks))

    def _distance(self, share: float) -> float | None:
        """Nearest rank."""
        if not self._newest_distances:
            return None
        ordered = sorted(self._newest_distances)
        return float(ordered[max(math.ceil(share * len(ordered)) - 1, 0)])
