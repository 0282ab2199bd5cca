"""A cap from the pool and the mean length of ended conversations, in the manner of prime-rl.

prime-rl, a framework for reinforcement learning, sizes the number of its episodes in flight by

    cap = overcommit * pool tokens / mean final context

where the mean is over kinds of episodes, each with its share and its duration as weight, since long
ones are more often inside than their number says; both follow ended episodes slowly. Until one has
ended, each is taken to become as long as the model allows. So the sum of what all inside will need
at their *ends* fits the pool. Refills come in few at a time.

Ours differs in two ways. Its factor for over-commitment is learned there, from preemptions and the
engine's queue; here it is a setting, because neither says anything about prefixes that idle
episodes lose, which is what limits robots. And it is computed at every decision, there once per
training step.
"""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.plain_text import counted
from server.core.admission.interface import (
    AdmissionDecision,
    AdmissionPolicy,
    AdmissionReport,
    EndedEpisode,
    FleetView,
)
from server.core.residency import LedgerSnapshot

#: Families that are remembered; the one that ended an episode longest ago is dropped.
_MAX_FAMILIES = 256


@dataclass(frozen=True)
class ForecastCapSettings:
    """Attributes:
    overcommit: Factor on the pool; 1 lets all inside be at their longest at once.
    first_context_tokens: How long a conversation becomes, before one has ended.
    newest: Weight of an ended episode in its family's means.
    refill_share: Most that come in at once, as a share of the cap; at least one does.
    refill_interval_s: Time between two such groups.
    """

    overcommit: float = 1.0
    first_context_tokens: int = 262_144
    newest: float = 0.1
    refill_share: float = 0.1
    refill_interval_s: float = 5.0


@dataclass
class _Family:
    share: float
    tokens: float
    duration_s: float


class ForecastCapAdmission(AdmissionPolicy):
    """See the module. Without the pool's size one episode is inside at a time."""

    name = "forecast-cap"

    def __init__(self, settings: ForecastCapSettings | None = None) -> None:
        self._settings = settings or ForecastCapSettings()
        self._families: dict[str, _Family] = {}
        self._cap: int | None = None
        self._refilled_s: float | None = None
        self._num_refilled = 0

    @property
    def cap(self) -> int | None:
        return self._cap

    def on_end(self, ended: EndedEpisode) -> None:
        if not ended.went_to_its_end or ended.peak_tokens < 1:
            return
        newest = self._settings.newest
        duration_s = max(ended.duration_s, 1e-3)
        family = self._families.pop(ended.task_family, None)
        if family is None:
            family = _Family(0.0, float(ended.peak_tokens), duration_s)
        # Newest last, so that the first is the one to drop.
        self._families[ended.task_family] = family
        family.tokens += newest * (ended.peak_tokens - family.tokens)
        family.duration_s += newest * (duration_s - family.duration_s)
        for other in self._families.values():
            other.share *= 1.0 - newest
        family.share += newest
        if len(self._families) > _MAX_FAMILIES:
            del self._families[next(iter(self._families))]

    def decide(self, view: FleetView) -> AdmissionDecision:
        num_inside = sum(episode.uses_brain for episode in view.active)
        self._cap = self._cap_of(view.ledger)
        cap = 1 if self._cap is None else self._cap
        free = max(cap - num_inside, 0)
        left = min(free, self._refill_left(view.now_s, cap))
        num_brains = 0
        for place, episode in enumerate(view.waiting):
            if not episode.uses_brain:
                continue
            if num_brains == left:
                self._num_refilled += num_brains
                return AdmissionDecision(place, self._reason(num_inside + num_brains, free > left))
            num_brains += 1
        self._num_refilled += num_brains
        return AdmissionDecision(len(view.waiting))

    def report(self, view: FleetView) -> AdmissionReport:
        mean = self._mean_tokens()
        return AdmissionReport(detail=f"mean context at the end {mean:.0f} tokens")

    def _cap_of(self, ledger: LedgerSnapshot) -> int | None:
        if ledger.pool_blocks is None or ledger.block_tokens is None:
            return None
        pool_tokens = self._settings.overcommit * ledger.pool_blocks * ledger.block_tokens
        return max(int(pool_tokens / self._mean_tokens()), 1)

    def _mean_tokens(self) -> float:
        weights = [family.share * family.duration_s for family in self._families.values()]
        if not sum(weights) > 0:
            return float(self._settings.first_context_tokens)
        tokens = [family.tokens for family in self._families.values()]
        return sum(w * t for w, t in zip(weights, tokens, strict=True)) / sum(weights)

    def _refill_left(self, now_s: float, cap: int) -> int:
        if self._refilled_s is None or now_s - self._refilled_s >= self._settings.refill_interval_s:
            self._refilled_s, self._num_refilled = now_s, 0
        return max(max(int(self._settings.refill_share * cap), 1) - self._num_refilled, 0)

    def _reason(self, num_inside: int, is_paced: bool) -> str:
        inside = counted(num_inside, "episode")
        if self._cap is None:
            return (
                f"forecast cap: {inside} inside; the pool's size is unknown "
                "(admission.pool_blocks, admission.block_tokens)"
            )
        if is_paced:
            return f"forecast cap {self._cap}: {inside} inside, more come in soon"
        return f"forecast cap {self._cap}: {inside} inside"
