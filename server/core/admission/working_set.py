"""Admission by what the episodes inside will need of the pool, in blocks.

An episode is priced by the context it will have, not by the one it has: those admitted young all
grow up together, and a forecast that looks only a turn ahead lets in several times too many
(`_price_blocks`). The price is learned from ended episodes of the same task family, the capacity
from which prefixes survived (`server.core.residency.capacity`). While prefixes are being lost
nobody comes in: a fleet that has tipped over recovers only when some have ended.

Limits of this first version:

- It needs the pool's size and block size, from the engine or from the configuration. Without them
  it stays in slow start: one more episode per interval while the hit rate is healthy, and no way
  back but that episodes end.
- A family that has just appeared is priced like the longest of all, which may be far too much; one
  that becomes longer while it runs is found out only as its episodes end.
- Text that episodes share in front is priced for each of them.
- It never asks an episode inside to wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.plain_text import counted
from server.core.admission.interface import (
    ActiveEpisode,
    AdmissionDecision,
    AdmissionPolicy,
    AdmissionReport,
    FleetView,
    WaitingEpisode,
)
from server.core.residency import (
    HEALTHY_HIT,
    MIN_COUNTED,
    PEAK_SHARE,
    LedgerSnapshot,
    blocks_of,
)

#: Ended episodes before what they reached replaces slow start.
_MIN_ENDED = 4


@dataclass(frozen=True)
class WorkingSetSettings:
    """Attributes:
    pool_share: Share of the pool to hand out; None: as learned, 0.85 before anything was learned.
    peak_share: Share of its family's peak at which a young episode is priced; see
        server.core.residency.PEAK_SHARE.
    growth_turns: An episode is priced at least this many turns ahead of its present context.
    overhead_blocks: Added for each episode: started blocks and state snapshots.
    slow_start_episodes: Inside at once while nothing is known of any task family.
    slow_start_interval_s: Time after which slow start lets in one more.
    """

    pool_share: float | None = None
    peak_share: float = PEAK_SHARE
    growth_turns: int = 2
    overhead_blocks: int = 8
    slow_start_episodes: int = 4
    slow_start_interval_s: float = 30.0


class WorkingSetAdmission(AdmissionPolicy):
    """Admits while the prices of all inside stay within the budget. See the module.

    One episode is always let in, however large: it may be the only one that anybody wants.
    Episodes without a brain cost nothing here.
    """

    name = "working-set"

    def __init__(self, settings: WorkingSetSettings | None = None) -> None:
        self._settings = settings or WorkingSetSettings()
        self._slow_cap = self._settings.slow_start_episodes
        self.control_interval_s = self._settings.slow_start_interval_s

    def decide(self, view: FleetView) -> AdmissionDecision:
        ledger = view.ledger
        budget = self._budget_blocks(ledger)
        inside = [episode for episode in view.active if episode.uses_brain]
        used, num_inside = self._used_blocks(view), len(inside)
        for place, episode in enumerate(view.waiting):
            if not episode.uses_brain:
                continue
            price = self._price_blocks(episode, ledger)
            if num_inside:
                reason = self._refusal(used, price, budget, num_inside, ledger)
                if reason:
                    return AdmissionDecision(place, reason)
            used += price
            num_inside += 1
        return AdmissionDecision(len(view.waiting))

    def control(self, view: FleetView) -> None:
        """One more in slow start, if those inside do well and the slots are used."""
        hit = view.ledger.window.full_prefix_hit
        num_inside = sum(episode.uses_brain for episode in view.active)
        if (
            self._is_slow_start(view.ledger)
            and hit is not None
            and hit >= HEALTHY_HIT
            and num_inside >= self._slow_cap
        ):
            self._slow_cap += 1

    def report(self, view: FleetView) -> AdmissionReport:
        if self._is_slow_start(view.ledger):
            at_once = counted(self._slow_cap, "episode")
            detail = f"slow start: {at_once} at once, {self._missing(view.ledger)}"
        else:
            detail = f"forecast from {view.ledger.forecasts.num_ended} ended episodes"
        return AdmissionReport(
            forecast_blocks=self._used_blocks(view) if view.ledger.block_tokens else None,
            capacity_blocks=self._budget_blocks(view.ledger),
            detail=detail,
        )

    def _refusal(
        self, used: int, price: int, budget: int | None, num_inside: int, ledger: LedgerSnapshot
    ) -> str:
        """Why one more may not come in; empty if it may."""
        hit = ledger.window.full_prefix_hit
        if hit is not None and hit < HEALTHY_HIT and ledger.window.num_counted >= MIN_COUNTED:
            return (
                f"working set: prefixes of {counted(num_inside, 'episode')} inside are being lost "
                f"(hit {hit:.2f})"
            )
        if self._is_slow_start(ledger) and num_inside >= self._slow_cap:
            inside = counted(num_inside, "episode")
            return f"working set, slow start: {inside} inside, {self._missing(ledger)}"
        if budget is not None and used + price > budget:
            verb = "is" if num_inside == 1 else "are"
            return (
                f"working set: {counted(num_inside, 'episode')} inside {verb} forecast to need "
                f"{used} of {budget} blocks, the next one {price} more"
            )
        return ""

    def _is_slow_start(self, ledger: LedgerSnapshot) -> bool:
        return ledger.forecasts.num_ended < _MIN_ENDED or self._budget_blocks(ledger) is None

    def _missing(self, ledger: LedgerSnapshot) -> str:
        if self._budget_blocks(ledger) is None:
            return "the pool's size is unknown (admission.pool_blocks, admission.block_tokens)"
        return f"{ledger.forecasts.num_ended} have ended so far"

    def _budget_blocks(self, ledger: LedgerSnapshot) -> int | None:
        if ledger.block_tokens is None:
            return None
        if self._settings.pool_share is not None and ledger.pool_blocks is not None:
            return int(self._settings.pool_share * ledger.pool_blocks)
        return ledger.capacity_blocks

    def _used_blocks(self, view: FleetView) -> int:
        return sum(
            self._price_blocks(episode, view.ledger)
            for episode in view.active
            if episode.uses_brain
        )

    def _price_blocks(self, episode: ActiveEpisode | WaitingEpisode, ledger: LedgerSnapshot) -> int:
        """max(context + growth, peak_share * its family's peak) in blocks + overhead."""
        settings = self._settings
        forecast = ledger.forecasts.of(episode.task_family)
        context = episode.context_tokens if isinstance(episode, ActiveEpisode) else 0
        grown = context + settings.growth_turns * (forecast.growth_tokens_per_turn or 0.0)
        peak = settings.peak_share * (forecast.peak_tokens or 0.0)
        # Without a block size nothing is compared with this sum.
        return blocks_of(max(grown, peak), ledger.block_tokens or 1) + settings.overhead_blocks
