"""Prefixes of episodes that sleep long, in front of a pool that fills up with what others left."""

from __future__ import annotations

import itertools

import pytest

from server.core.admission import UnlimitedAdmission
from server.core.leases import EndCause, EpisodeInfo, LeaseTable
from server.core.registry import AdmittedEvent, EpisodeRegistry
from server.core.residency import EngineGauges, LedgerSnapshot, PrefixOutcome, RefreshedPrefix
from tests.fakes.lru_pool import LruPool

BLOCK = 16
POOL_BLOCKS = 1000
CONTEXT_BLOCKS = 100


class Refreshing(UnlimitedAdmission):
    """Lets everybody in and keeps prefixes warm."""

    def __init__(self, limit_blocks: int | None) -> None:
        self.limit_blocks = limit_blocks
        self.told: list[RefreshedPrefix] = []

    def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
        return self.limit_blocks

    def on_refresh(self, refreshed: RefreshedPrefix) -> None:
        self.told.append(refreshed)


class Fleet:
    """One sleeper with a turn a minute; beside it short episodes come and go, one a second."""

    def __init__(self, policy: UnlimitedAdmission, can_refresh: bool = True) -> None:
        ids = (f"id-{n}" for n in itertools.count())
        self.door = EpisodeRegistry(LeaseTable(1e9, "boot", lambda: next(ids)), policy)
        self.door.tell_engine(
            EngineGauges(pool_blocks=POOL_BLOCKS, block_tokens=BLOCK, can_refresh=can_refresh)
        )
        self.pool = LruPool(POOL_BLOCKS, BLOCK)
        self.now_s = 0.0
        self.names = itertools.count()
        self.sleeper = self.come_in()
        self.turn(self.sleeper)

    def come_in(self) -> str:
        self.door.open(EpisodeInfo(f"open-{next(self.names)}", uses_brain=True), self.now_s)
        (event,) = self.door.step(self.now_s)
        assert isinstance(event, AdmittedEvent)
        return event.episode.episode_id

    def turn(self, episode_id: str) -> PrefixOutcome:
        tokens = (CONTEXT_BLOCKS - 1) * BLOCK
        usage = self.pool.turn(episode_id, new_tokens=tokens, output_tokens=BLOCK)
        counted = self.door.record_turn(episode_id, usage, self.now_s)
        assert counted is not None
        return counted.outcome

    def sleep(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            passer_by = self.come_in()
            self.turn(passer_by)
            self.door.end(passer_by, EndCause.ENDED_BY_ROBOT, self.now_s)
            for episode_id in self.door.due_refreshes(self.now_s):
                found = self.pool.refresh(episode_id)
                self.door.refresh_done(episode_id, found, self.now_s)


def test_what_the_dead_left_pushes_out_a_sleeper() -> None:
    fleet = Fleet(Refreshing(None))
    fleet.sleep(60)

    assert fleet.turn(fleet.sleeper) is PrefixOutcome.MISS


def test_a_sleeper_that_is_refreshed_is_found_whole() -> None:
    policy = Refreshing(700)
    fleet = Fleet(policy)
    fleet.sleep(60)

    assert fleet.turn(fleet.sleeper) is PrefixOutcome.HIT
    # 100 blocks a second pass by, so it is due when 600 have: the seventh second.
    assert len(policy.told) == 60 // 7
    assert all(refreshed.found for refreshed in policy.told)
    totals = fleet.door.ledger.totals
    assert (totals.refreshes_found, totals.refreshes_lost) == (8, 0)


def test_a_refresh_that_comes_too_late_is_counted_as_lost_and_the_policy_is_told() -> None:
    policy = Refreshing(None)
    fleet = Fleet(policy)
    fleet.sleep(20)
    policy.limit_blocks = 700
    fleet.sleep(1)

    assert [refreshed.found for refreshed in policy.told] == [False]
    assert fleet.door.ledger.totals.refreshes_lost == 1
    assert fleet.turn(fleet.sleeper) is PrefixOutcome.HIT


def test_an_engine_that_cannot_is_not_asked() -> None:
    fleet = Fleet(Refreshing(700), can_refresh=False)
    fleet.sleep(60)

    assert fleet.turn(fleet.sleeper) is PrefixOutcome.MISS


def test_an_episode_that_ends_during_its_refresh_leaves_nothing_behind() -> None:
    policy = Refreshing(0)
    fleet = Fleet(policy)
    (due,) = fleet.door.due_refreshes(100.0)
    fleet.door.end(due, EndCause.ENDED_BY_ROBOT, 100.0)

    fleet.door.refresh_done(due, True, 101.0)

    assert policy.told == []
    assert fleet.door.due_refreshes(102.0) == []


def test_nothing_is_refreshed_while_the_fleet_loses_its_prefixes() -> None:
    policy = Refreshing(None)
    fleet = Fleet(policy)
    others = [fleet.come_in() for _ in range(12)]
    for _ in range(3):
        for name in others:
            fleet.now_s += 0.1
            fleet.turn(name)
    hit = fleet.door.ledger.snapshot(fleet.now_s).window.full_prefix_hit
    assert hit is not None
    assert hit < 0.5
    policy.limit_blocks = 0

    assert fleet.door.due_refreshes(fleet.now_s) == []


def test_a_policy_that_fails_at_its_limit_stops_refreshes_and_nothing_else() -> None:
    class Broken(Refreshing):
        def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
            raise ZeroDivisionError

    fleet = Fleet(Broken(700))
    assert fleet.door.due_refreshes(5.0) == []


@pytest.mark.parametrize("found", [True, False, None])
def test_the_end_of_a_refresh_that_nobody_began_is_ignored(found: bool | None) -> None:
    policy = Refreshing(700)
    fleet = Fleet(policy)

    fleet.door.refresh_done(fleet.sleeper, found, 1.0)
    fleet.door.refresh_done("nobody", found, 1.0)

    assert policy.told == []


def test_a_refresh_from_before_another_block_size_says_nothing_of_the_new_blocks() -> None:
    policy = Refreshing(0)
    fleet = Fleet(policy)
    (due,) = fleet.door.due_refreshes(1.0)
    fleet.door.tell_engine(
        EngineGauges(pool_blocks=POOL_BLOCKS // 8, block_tokens=8 * BLOCK, can_refresh=True)
    )

    fleet.door.refresh_done(due, True, 2.0)

    assert policy.told == []
    assert fleet.door.ledger.snapshot(10.0).capacity.survived_blocks is None


def test_turns_of_an_engine_that_can_refresh_no_longer_are_not_judged_as_if_it_could() -> None:
    fleet = Fleet(Refreshing(700))
    fleet.sleep(2)
    fleet.door.tell_engine(EngineGauges(POOL_BLOCKS, BLOCK, can_refresh=False))
    fleet.sleep(2)
    tokens = (CONTEXT_BLOCKS - 1) * BLOCK
    usage = fleet.pool.turn(fleet.sleeper, new_tokens=tokens, output_tokens=BLOCK)

    counted = fleet.door.record_turn(fleet.sleeper, usage, fleet.now_s)

    assert counted is not None
    assert counted.refresh_limit_blocks is None


def test_a_policy_that_refreshes_nothing_is_asked_once_a_second_and_not_at_every_tick() -> None:
    class Counting(Refreshing):
        asked = 0

        def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
            self.asked += 1
            return None

    policy = Counting(None)
    fleet = Fleet(policy)
    for tick in range(100):
        fleet.door.due_refreshes(tick * 0.1)

    assert policy.asked == 10


def test_a_fleet_that_stands_still_in_front_of_too_small_a_pool_is_not_computed_for_ever() -> None:
    policy = Refreshing(None)
    fleet = Fleet(policy)
    others = [fleet.come_in() for _ in range(12)]
    for name in others:
        fleet.turn(name)
    policy.limit_blocks = 700
    num_lost = 0
    for second in range(200, 800):
        for episode_id in fleet.door.due_refreshes(float(second)):
            found = fleet.pool.refresh(episode_id)
            num_lost += not found
            fleet.door.refresh_done(episode_id, found, float(second))

    # Twice a second would be 1,200.
    assert 4 <= num_lost <= 4 + 2 * 10


def test_prefixes_that_were_all_lost_once_are_warm_again_though_others_go_on_to_pass_by() -> None:
    policy = Refreshing(None)
    fleet = Fleet(policy)
    sleepers = [fleet.sleeper, *(fleet.come_in() for _ in range(3))]
    for sleeper in sleepers[1:]:
        fleet.turn(sleeper)

    def rounds(num_rounds: int) -> set[PrefixOutcome]:
        outcomes = set()
        for _ in range(num_rounds):
            for sleeper in sleepers:
                fleet.sleep(6)
                usage = fleet.pool.turn(sleeper, new_tokens=BLOCK, output_tokens=0)
                counted = fleet.door.record_turn(sleeper, usage, fleet.now_s)
                assert counted is not None
                outcomes.add(counted.outcome)
        return outcomes

    rounds(1)
    assert rounds(5) == {PrefixOutcome.MISS}
    # The four need 480 blocks of 1,000 at most, so they fit; the rest is for those who pass by.
    policy.limit_blocks = 700
    rounds(2)
    assert rounds(10) == {PrefixOutcome.HIT}


def test_a_turn_that_failed_holds_no_blocks() -> None:
    fleet = Fleet(Refreshing(None))
    fleet.door.turn_hold_s(fleet.sleeper, 1.0)
    assert fleet.door.ledger._distances.held_blocks > 0

    fleet.door.turn_failed(fleet.sleeper)
    fleet.door.turn_failed("nobody")

    assert fleet.door.ledger._distances.held_blocks == 0
