"""Pausing conversations at their turn boundaries, in the manner of ThunderAgent.

ThunderAgent, a proxy between agents and engines, lets nearly everybody in. Every 5 s it adds up the
conversations of all programs it has not paused, with 100 tokens of room each. Above the pool it
pauses programs, the shortest first: those that run a tool at once, those that wait for the engine
when their turn has ended. As soon as there is room it lets paused ones go on, the longest first,
and those that wait with a turn before new ones. One that has waited for half an hour goes on
whatever the sum says.

Ours differs in three ways. There is one engine, so nothing is moved to another. The longest wait
is the door's own (admission.max_turn_hold_s), which is shorter, since a robot stands still
meanwhile. And what an idle program's prefix is worth does not fade: its setting for that is at 1,
the default there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from robot_sdk.plain_text import counted
from server.core.admission.interface import (
    ActiveEpisode,
    AdmissionDecision,
    AdmissionPolicy,
    AdmissionReport,
    EndedEpisode,
    FleetView,
)
from server.core.residency import CountedTurn, LedgerSnapshot, PrefixOutcome

#: How long a held turn waits before it asks again.
_ASK_AGAIN_S = 1.0
_NEWEST = 0.1


@dataclass(frozen=True)
class PauseResumeSettings:
    """Attributes:
    interval_s: Time between two looks at the sum.
    room_tokens: Added for each conversation, for what its turn generates.
    """

    interval_s: float = 5.0
    room_tokens: int = 100


class PauseResumeAdmission(AdmissionPolicy):
    """See the module. Without the pool's size everybody comes in and nobody is paused."""

    name = "pause-resume"
    holds_turns = True

    def __init__(self, settings: PauseResumeSettings | None = None) -> None:
        self._settings = settings or PauseResumeSettings()
        self.control_interval_s = self._settings.interval_s
        self._paused: set[str] = set()
        #: Paused ones whose turn still runs: they stop when it has ended.
        self._stopping: set[str] = set()
        #: Paused ones that wait with a turn.
        self._asking: set[str] = set()
        self._running: set[str] = set()
        self._first_tokens = 0.0
        self.num_paused_total = 0

    def decide(self, view: FleetView) -> AdmissionDecision:
        capacity = _capacity_tokens(view.ledger)
        if capacity is None:
            return AdmissionDecision(len(view.waiting))
        demand = self._demand_tokens(view.active)
        num_inside = sum(episode.uses_brain for episode in view.active)
        for place, episode in enumerate(view.waiting):
            if not episode.uses_brain:
                continue
            if num_inside and self._asking:
                paused = counted(len(self._paused), "episode")
                return AdmissionDecision(place, f"pause and resume: {paused} inside paused")
            demand += self._first_tokens + self._settings.room_tokens
            if num_inside and demand > capacity:
                return AdmissionDecision(
                    place,
                    f"pause and resume: {counted(num_inside, 'episode')} inside and the next one "
                    f"have {demand:.0f} of {capacity} tokens",
                )
            num_inside += 1
        return AdmissionDecision(len(view.waiting))

    def control(self, view: FleetView) -> None:
        """Resume what fits, then pause what does not."""
        capacity = _capacity_tokens(view.ledger)
        inside = {e.episode_id: e for e in view.active if e.uses_brain}
        for kept in (self._paused, self._stopping, self._asking, self._running):
            kept.intersection_update(inside)
        if capacity is None:
            self._resume(tuple(self._paused))
            return
        demand = self._demand_tokens(inside.values())
        for episode in self._resume_order(inside):
            more = self._tokens(episode)
            if demand + more <= capacity:
                self._resume((episode.episode_id,))
                demand += more
        for episode in self._pause_order(inside):
            if demand <= capacity or len(inside) - len(self._paused) <= 1:
                return
            self._pause(episode.episode_id)
            demand -= self._tokens(episode)

    def on_turn(self, turn: CountedTurn) -> None:
        name = turn.episode_id
        self._running.discard(name)
        if name in self._stopping:
            self._stopping.discard(name)
        elif name in self._paused:
            # The driver let it go on after the longest wait.
            self._resume((name,))
        if turn.outcome is PrefixOutcome.FIRST:
            tokens = turn.footprint.context_tokens
            weight = _NEWEST if self._first_tokens else 1.0
            self._first_tokens += weight * (tokens - self._first_tokens)

    def on_end(self, ended: EndedEpisode) -> None:
        self._resume((ended.episode_id,))
        self._running.discard(ended.episode_id)

    def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
        if episode_id in self._paused:
            self._asking.add(episode_id)
            return _ASK_AGAIN_S
        self._running.add(episode_id)
        return 0.0

    def report(self, view: FleetView) -> AdmissionReport:
        paused = counted(len(self._paused), "episode")
        return AdmissionReport(detail=f"{paused} paused, {self.num_paused_total} so far")

    def _demand_tokens(self, active: Iterable[ActiveEpisode]) -> float:
        return sum(
            self._tokens(episode)
            for episode in active
            if episode.uses_brain and episode.episode_id not in self._paused
        )

    def _tokens(self, episode: ActiveEpisode) -> float:
        """One that has not had its first turn is taken to become as long as others by it."""
        return max(episode.context_tokens, self._first_tokens) + self._settings.room_tokens

    def _resume_order(self, inside: dict[str, ActiveEpisode]) -> list[ActiveEpisode]:
        """Those that wait with a turn first, the longest first."""
        return sorted(
            (inside[name] for name in self._paused),
            key=lambda e: (e.episode_id not in self._asking, -e.context_tokens, e.episode_id),
        )

    def _pause_order(self, inside: dict[str, ActiveEpisode]) -> list[ActiveEpisode]:
        """Those without a turn in the engine first, the shortest first."""
        return sorted(
            (e for name, e in inside.items() if name not in self._paused),
            key=lambda e: (e.episode_id in self._running, e.context_tokens, e.episode_id),
        )

    def _pause(self, episode_id: str) -> None:
        self._paused.add(episode_id)
        if episode_id in self._running:
            self._stopping.add(episode_id)
        self.num_paused_total += 1

    def _resume(self, episode_ids: Iterable[str]) -> None:
        for kept in (self._paused, self._stopping, self._asking):
            kept.difference_update(episode_ids)


def _capacity_tokens(ledger: LedgerSnapshot) -> int | None:
    if ledger.pool_blocks is None or ledger.block_tokens is None:
        return None
    return ledger.pool_blocks * ledger.block_tokens
