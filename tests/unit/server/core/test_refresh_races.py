"""Refreshes, holds, turns and ends in any order: nothing is done twice, nothing is left behind."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from robot_sdk.messages import TokenUsage
from server.core.admission import FleetView, UnlimitedAdmission
from server.core.leases import EndCause, EpisodeInfo, LeaseTable
from server.core.registry import AdmittedEvent, EpisodeRegistry
from server.core.residency import EngineGauges, LedgerSnapshot
from server.core.residency.refresh import MOST_PER_INTERVAL

HOLD_S = 10.0


class Eager(UnlimitedAdmission):
    """Has everything refreshed, and parks every other episode (secrets take the odd numbers)."""

    holds_turns = True

    def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
        return 0

    def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
        return 2.0 if int(episode_id.removeprefix("id-")) % 4 else 0.0


class Races(RuleBasedStateMachine):
    """What a server does with a registry, in an order that nobody would choose."""

    def __init__(self) -> None:
        super().__init__()
        ids = (f"id-{n}" for n in itertools.count())
        self.names = (f"open-{n}" for n in itertools.count())
        self.door = EpisodeRegistry(
            LeaseTable(20.0, "boot", lambda: next(ids)), Eager(), max_turn_hold_s=HOLD_S
        )
        self.now_s = 0.0
        self.inside: dict[str, int] = {}
        self.asked_s: dict[str, float] = {}
        self.begun: set[str] = set()
        self.refreshing: list[str] = []
        self.block_tokens = 16
        self.changed_blocks = False
        self.tell(16, True)

    def pick(self, names: list[str], number: int) -> str:
        return names[number % len(names)]

    @rule(block_tokens=st.sampled_from([16, 16, 16, 64]), can_refresh=st.booleans())
    def tell(self, block_tokens: int, can_refresh: bool) -> None:
        if block_tokens != self.block_tokens:
            self.block_tokens, self.changed_blocks = block_tokens, True
        self.door.tell_engine(EngineGauges(1000, block_tokens, 0.5, can_refresh=can_refresh))

    @rule()
    def come_in(self) -> None:
        if len(self.inside) < 6:
            self.door.open(EpisodeInfo(next(self.names), uses_brain=True), self.now_s)
            self.step()

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 3.0, 12.0, 90.0]), is_heard=st.booleans())
    def wait(self, seconds: float, is_heard: bool) -> None:
        self.now_s += seconds
        if is_heard:
            self.door.leases.extend(seconds, self.now_s)
        self.step()

    @precondition(lambda self: self.inside)
    @rule(number=st.integers(0, 5))
    def ask_for_a_turn(self, number: int) -> None:
        episode_id = self.pick(list(self.inside), number)
        if episode_id in self.begun:
            return
        asked_s = self.asked_s.setdefault(episode_id, self.now_s)
        hold_s = self.door.turn_hold_s(episode_id, self.now_s)
        assert hold_s <= asked_s + HOLD_S - self.now_s or hold_s == 0.0
        if hold_s == 0.0:
            self.begun.add(episode_id)
            del self.asked_s[episode_id]

    @precondition(lambda self: self.begun)
    @rule(number=st.integers(0, 5), found=st.booleans(), is_rebuild=st.booleans())
    def commit(self, number: int, found: bool, is_rebuild: bool) -> None:
        episode_id = self.pick(sorted(self.begun), number)
        self.begun.discard(episode_id)
        old = self.inside[episode_id]
        usage = TokenUsage(
            input_tokens=old + 100,
            cached_tokens=old if found else 0,
            computed_tokens=100 if found else old + 100,
            output_tokens=20,
            new_tokens=100,
        )
        self.now_s += 0.01
        self.door.record_turn(episode_id, usage, self.now_s, is_rebuild)
        self.inside[episode_id] = old + 120

    @precondition(lambda self: self.begun)
    @rule(number=st.integers(0, 5))
    def fail(self, number: int) -> None:
        episode_id = self.pick(sorted(self.begun), number)
        self.begun.discard(episode_id)
        self.door.turn_failed(episode_id)

    @rule()
    def tick(self) -> None:
        due = self.door.due_refreshes(self.now_s)
        assert set(due) <= set(self.inside)
        assert len(due) <= MOST_PER_INTERVAL
        if not self.changed_blocks:
            assert not set(due) & set(self.refreshing)
            assert len(self.refreshing) + len(due) <= MOST_PER_INTERVAL
        self.refreshing += due

    @precondition(lambda self: self.refreshing)
    @rule(number=st.integers(0, 5), found=st.sampled_from([True, False, None]))
    def refreshed(self, number: int, found: bool | None) -> None:
        episode_id = self.pick(self.refreshing, number)
        self.refreshing.remove(episode_id)
        self.door.refresh_done(episode_id, found, self.now_s)

    @precondition(lambda self: self.inside)
    @rule(number=st.integers(0, 5), cause=st.sampled_from(list(EndCause)))
    def end(self, number: int, cause: EndCause) -> None:
        episode_id = self.pick(list(self.inside), number)
        self.door.end(episode_id, cause, self.now_s)
        self.forget(episode_id)
        self.door.turn_failed(episode_id)

    @invariant()
    def blocks_of_turns_that_run_are_held_and_no_others(self) -> None:
        ledger = self.door.ledger
        running = {name for name, own in ledger._distances._conversations.items() if own.is_running}
        # Another block size forgets what was begun; it counts as begun when it is committed.
        assert running <= self.begun
        if not self.changed_blocks:
            assert running == self.begun
        assert set(self.door._held_since_s) == set(self.asked_s)

    def step(self) -> None:
        for event in self.door.step(self.now_s):
            if isinstance(event, AdmittedEvent):
                self.inside[event.episode.episode_id] = 0
            else:
                self.forget(event.episode.episode_id)

    def forget(self, episode_id: str) -> None:
        self.inside.pop(episode_id)
        self.asked_s.pop(episode_id, None)
        self.begun.discard(episode_id)

    def teardown(self) -> None:
        for episode_id in self.refreshing:
            self.door.refresh_done(episode_id, None, self.now_s)
        for episode_id in list(self.inside):
            self.door.end(episode_id, EndCause.SHUTDOWN, self.now_s)
        ledger = self.door.ledger
        assert ledger._refresher._running == {}
        assert len(ledger._distances) == 0
        assert ledger._begun == {}
        assert self.door._held_since_s == {}


Races.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestRaces = Races.TestCase
