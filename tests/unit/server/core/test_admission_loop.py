"""Policies in a closed loop: robots that begin anew as soon as they end, in front of one pool."""

from __future__ import annotations

import itertools
import random

import pytest

from server.core.admission import (
    AdmissionPolicy,
    UnlimitedAdmission,
    WorkingSetAdmission,
)
from server.core.leases import EndCause, EpisodeInfo, LeaseTable
from server.core.registry import AdmittedEvent, EpisodeRegistry
from server.core.residency import WORKING_SET_THRASH, EngineGauges, PrefixOutcome
from tests.fakes.lru_pool import LruPool

BLOCK = 16
POOL_BLOCKS = 1000
NUM_ROBOTS = 30
WARM_UP_S = 240.0


class Fleet:
    """Every admitted episode takes a turn every 5 s and grows by 5 blocks, for 20 to 40 turns."""

    def __init__(self, policy: AdmissionPolicy, told_blocks: int = POOL_BLOCKS) -> None:
        ids = (f"id-{n}" for n in itertools.count())
        self.door = EpisodeRegistry(LeaseTable(1e9, "boot", lambda: next(ids)), policy)
        self.door.tell_engine(EngineGauges(pool_blocks=told_blocks, block_tokens=BLOCK))
        self.pool = LruPool(POOL_BLOCKS, BLOCK)
        self.rng = random.Random(1)
        self.turns_left: dict[str, int] = {}
        self.names = itertools.count()
        self.num_ended = 0
        self.outcomes: list[PrefixOutcome] = []
        self.alerts: set[str] = set()
        self.now_s = 0.0
        for _ in range(NUM_ROBOTS):
            self.arrive()

    def arrive(self) -> None:
        info = EpisodeInfo(f"open-{next(self.names)}", task_family="sort", uses_brain=True)
        self.door.open(info, self.now_s)

    def run(self, until_s: float) -> Fleet:
        while self.now_s < until_s:
            for event in self.door.step(self.now_s):
                assert isinstance(event, AdmittedEvent)
                self.turns_left[event.episode.episode_id] = self.rng.randrange(20, 41)
            for episode_id in list(self.turns_left):
                self.turn(episode_id)
            self.alerts |= {alert.finding.name for alert in self.door.report.alerts}
            self.now_s += 5.0
        return self

    def turn(self, episode_id: str) -> None:
        usage = self.pool.turn(episode_id, new_tokens=4 * BLOCK, output_tokens=BLOCK)
        turn = self.door.record_turn(episode_id, usage, self.now_s)
        assert turn is not None
        if self.now_s >= WARM_UP_S:
            self.outcomes.append(turn.outcome)
        self.turns_left[episode_id] -= 1
        if self.turns_left[episode_id] == 0:
            del self.turns_left[episode_id]
            self.door.end(episode_id, EndCause.ENDED_BY_ROBOT, self.now_s)
            self.num_ended += 1
            self.arrive()

    @property
    def hit(self) -> float:
        hits, misses = (
            self.outcomes.count(outcome) for outcome in (PrefixOutcome.HIT, PrefixOutcome.MISS)
        )
        return hits / (hits + misses)


def test_without_a_door_the_fleet_loses_its_prefixes() -> None:
    fleet = Fleet(UnlimitedAdmission()).run(1800.0)

    assert fleet.hit < 0.5
    assert WORKING_SET_THRASH in fleet.alerts


@pytest.mark.parametrize("told_blocks", [POOL_BLOCKS, int(1.3 * POOL_BLOCKS)])
def test_the_working_set_policy_keeps_them_also_when_told_a_larger_pool(told_blocks: int) -> None:
    fleet = Fleet(WorkingSetAdmission(), told_blocks).run(1800.0)

    assert fleet.hit >= 0.95
    assert fleet.num_ended > 50
    # The room is used: 0.85 of the pool at 0.85 of 150 blocks each is 6.7 episodes.
    assert 3 <= fleet.door.num_active <= 12
