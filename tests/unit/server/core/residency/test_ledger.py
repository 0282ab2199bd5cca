"""The ledger as a whole, in front of a least-recently-used pool."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from robot_sdk.messages import TokenUsage
from server.core.residency import (
    SILENT_ENGINE,
    WORKING_SET_FORECAST,
    CountedTurn,
    PrefixLedger,
    PrefixOutcome,
    blocks_of,
    find_alerts,
)
from tests.fakes.lru_pool import LruPool

BLOCK = 16
TURN_TOKENS = 48


class Fleet:
    """Sessions that are visited in turn, in front of one pool and one ledger."""

    def __init__(self, pool_blocks: int) -> None:
        self.pool = LruPool(pool_blocks, BLOCK)
        self.ledger = PrefixLedger()
        self.ledger.set_pool(pool_blocks, BLOCK)
        self.now_s = 0.0

    def begin(self, *names: str, family: str = "") -> None:
        for name in names:
            self.ledger.begin_episode(name, family)

    def turn(self, name: str, new_tokens: int = TURN_TOKENS - 8, output: int = 8) -> CountedTurn:
        self.now_s += 1.0
        usage = self.pool.turn(name, new_tokens, output)
        counted = self.ledger.record_turn(name, usage, self.now_s)
        assert counted is not None
        return counted

    @property
    def hit(self) -> float | None:
        return self.ledger.snapshot(self.now_s).window.full_prefix_hit


def visited_in_turn(num_sessions: int, num_rounds: int, pool_blocks: int) -> Fleet:
    """Sessions of 100 blocks each that hardly grow."""
    fleet = Fleet(pool_blocks)
    names = [f"session {n}" for n in range(num_sessions)]
    fleet.begin(*names)
    for name in names:
        fleet.turn(name, new_tokens=100 * BLOCK)
    for _ in range(num_rounds):
        for name in names:
            fleet.turn(name, new_tokens=1, output=1)
    return fleet


def test_sessions_that_fit_are_all_found_whole_and_those_that_do_not_are_all_lost() -> None:
    assert visited_in_turn(8, 3, pool_blocks=1000).hit == 1.0
    assert visited_in_turn(12, 3, pool_blocks=1000).hit == 0.0


def test_the_capacity_is_learned_from_both_sides_of_the_cliff() -> None:
    fleet = visited_in_turn(9, 3, pool_blocks=1000)
    fleet.begin(*(f"more {n}" for n in range(3)))
    for _ in range(3):
        for n in range(3):
            fleet.turn(f"more {n}", new_tokens=100 * BLOCK)
        for n in range(9):
            fleet.turn(f"session {n}", new_tokens=1, output=1)

    capacity = fleet.ledger.snapshot(fleet.now_s + 2).capacity

    assert capacity.survived_blocks is not None
    assert capacity.lost_blocks is not None
    assert 850 < capacity.survived_blocks <= 1000
    assert capacity.lost_blocks > 1000


def test_the_forecast_crosses_the_capacity_before_any_prefix_is_lost() -> None:
    fleet = Fleet(pool_blocks=1000)
    fleet.begin("a", family="sort")
    for _ in range(60):
        fleet.turn("a")
    fleet.ledger.end_episode("a", went_to_its_end=True)
    young = [f"young {n}" for n in range(6)]
    fleet.begin(*young, family="sort")
    for name in young * 2:
        fleet.turn(name)

    snapshot = fleet.ledger.snapshot(fleet.now_s)

    assert snapshot.window.full_prefix_hit == 1.0
    assert snapshot.working_set_blocks == 6 * 6
    assert snapshot.forecast_blocks == 6 * 153  # 0.85 of a peak of 2,880 tokens
    assert snapshot.capacity_blocks is not None
    assert snapshot.capacity_blocks < 1000
    assert [a.name for a in find_alerts(snapshot, SILENT_ENGINE)] == [WORKING_SET_FORECAST]


def test_the_need_of_a_turn_is_what_others_touched_and_its_own_prefix() -> None:
    fleet = Fleet(pool_blocks=1000)
    fleet.begin("a", "b")
    fleet.turn("a")
    fleet.turn("b", new_tokens=152)

    counted = fleet.turn("a")

    assert counted.reuse_distance_blocks == 10
    assert counted.needed_blocks == 10 + 3


def test_d6_each_turn_is_counted_once() -> None:
    fleet = Fleet(pool_blocks=1000)
    fleet.begin("a")
    for _ in range(5):
        fleet.turn("a")

    snapshot = fleet.ledger.snapshot(fleet.now_s)

    assert snapshot.totals.turns == {PrefixOutcome.FIRST: 1, PrefixOutcome.HIT: 4}
    assert snapshot.window.num_counted == 4
    assert snapshot.totals.computed_tokens + snapshot.totals.cached_tokens == sum(
        TURN_TOKENS * n + TURN_TOKENS - 8 for n in range(5)
    )


def test_c3_a_late_turn_of_an_ended_episode_brings_nothing_back() -> None:
    fleet = Fleet(pool_blocks=1000)
    fleet.begin("a")
    fleet.turn("a")
    fleet.ledger.end_episode("a", went_to_its_end=True)

    assert fleet.ledger.record_turn("a", fleet.pool.turn("a", 10, 5), 5.0) is None

    snapshot = fleet.ledger.snapshot(5.0)
    assert (snapshot.num_live, snapshot.working_set_tokens, snapshot.working_set_blocks) == (
        0,
        0,
        0,
    )


def test_an_episode_that_was_cut_off_says_nothing_about_its_family() -> None:
    fleet = Fleet(pool_blocks=1000)
    fleet.begin("a", family="sort")
    fleet.turn("a")
    fleet.ledger.end_episode("a", went_to_its_end=False)

    assert fleet.ledger.forecasts.of("sort").peak_tokens is None


def test_a_rebuild_counts_as_no_miss_and_makes_the_working_set_smaller() -> None:
    fleet = Fleet(pool_blocks=1000)
    fleet.begin("a", "b")
    for name in "aabb":
        fleet.turn(name, new_tokens=400)
    usage = TokenUsage(input_tokens=200, cached_tokens=96, output_tokens=8, new_tokens=100)

    counted = fleet.ledger.record_turn("a", usage, 10.0, is_rebuild=True)

    assert counted is not None
    assert counted.outcome is PrefixOutcome.REBUILD
    assert fleet.ledger.snapshot(10.0).window.num_misses == 0
    assert fleet.ledger.snapshot(10.0).working_set_tokens == 208 + 816
    context = fleet.ledger.context("a")
    assert context is not None
    assert context.peak_tokens == 816


def test_without_a_block_size_nothing_is_said_in_blocks_but_hits_are_counted() -> None:
    ledger = PrefixLedger()
    ledger.begin_episode("a", "")
    for cached, length in ((0, 1000), (896, 1500)):
        usage = TokenUsage(input_tokens=length, cached_tokens=cached, output_tokens=20)
        ledger.record_turn("a", usage, 1.0)

    snapshot = ledger.snapshot(1.0)

    assert snapshot.window.full_prefix_hit == 1.0
    assert snapshot.working_set_tokens == 1520
    assert snapshot.working_set_blocks is None
    assert snapshot.forecast_blocks is None
    assert snapshot.reuse_distance_blocks_p50 is None
    # In blocks of an assumed size.
    assert snapshot.counting_block_tokens == 128
    assert snapshot.capacity.survived_blocks == 8


def test_a_new_block_size_counts_the_living_contexts_anew() -> None:
    fleet = Fleet(pool_blocks=1000)
    fleet.begin("a")
    fleet.turn("a", new_tokens=92)
    assert fleet.ledger.snapshot(1.0).working_set_blocks == 7

    fleet.ledger.set_pool(100, 50)

    assert fleet.ledger.snapshot(1.0).working_set_blocks == 2


@pytest.mark.parametrize(("interval", "hit"), [(None, 0.0), (0, 1.0)])
def test_a_healthy_turn_is_judged_by_the_snapshots_that_its_engine_keeps(
    interval: int | None, hit: float
) -> None:
    ledger = PrefixLedger()
    ledger.set_pool(100, 784, interval)
    ledger.begin_episode("a", "")
    # vLLM 0.32 with a state group keeps blocks 1 to 3; the output fills the fourth.
    first = TokenUsage(input_tokens=3_086, cached_tokens=0, output_tokens=100, new_tokens=3_086)
    second = TokenUsage(input_tokens=3_686, cached_tokens=2_352, output_tokens=1, new_tokens=500)

    ledger.record_turn("a", first, 1.0)
    ledger.record_turn("a", second, 2.0)

    assert ledger.snapshot(2.0).window.full_prefix_hit == hit


def test_an_estimating_engine_still_tells_the_working_set() -> None:
    ledger = PrefixLedger()
    ledger.begin_episode("a", "")
    for length in (100, 200):
        usage = TokenUsage(input_tokens=length, output_tokens=10, new_tokens=90, estimated=True)
        ledger.record_turn("a", usage, 1.0)

    snapshot = ledger.snapshot(1.0)

    assert snapshot.working_set_tokens == 210
    assert snapshot.window.full_prefix_hit is None
    assert snapshot.window.num_unknown == 0  # 100 tokens are less than an assumed block
    assert snapshot.computed_tokens_per_min is None


@pytest.mark.parametrize("window_s", [60.0, 120.0])
def test_rates_are_over_the_window(window_s: float) -> None:
    ledger = PrefixLedger(window_s)
    ledger.begin_episode("a", "")
    usage = TokenUsage(input_tokens=1000, cached_tokens=0, output_tokens=10)
    ledger.record_turn("a", usage, 1.0)

    assert ledger.snapshot(1.0).computed_tokens_per_min == 1000 * 60 / window_s


class Books(RuleBasedStateMachine):
    """Random episodes: the sums are those over the living, and no figure leaves its range."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = PrefixLedger()
        self.ledger.set_pool(200, BLOCK)
        self.now_s = 0.0
        self.contexts: dict[str, int] = {}
        self.num_turns = 0

    @rule(name=st.sampled_from("abcd"), family=st.sampled_from(["x", "y"]))
    def begin(self, name: str, family: str) -> None:
        self.ledger.begin_episode(name, family)
        self.contexts.setdefault(name, 0)

    @rule(
        name=st.sampled_from("abcd"),
        new=st.none() | st.integers(0, 500),
        input_tokens=st.none() | st.integers(0, 5000),
        cached=st.none() | st.integers(0, 6000),
        output=st.none() | st.integers(0, 50),
        is_rebuild=st.booleans(),
        gap_s=st.floats(0, 50),
    )
    def turn(self, name: str, gap_s: float, is_rebuild: bool, **counts: Any) -> None:
        self.now_s += gap_s
        usage = TokenUsage(
            input_tokens=counts["input_tokens"],
            cached_tokens=counts["cached"],
            output_tokens=counts["output"],
            new_tokens=counts["new"],
        )
        counted = self.ledger.record_turn(name, usage, self.now_s, is_rebuild)
        if name not in self.contexts or usage.input_tokens is None:
            assert counted is None
            return
        assert counted is not None
        self.num_turns += 1
        self.contexts[name] = usage.input_tokens + (usage.output_tokens or 0)
        assert counted.reuse_distance_blocks is None or counted.reuse_distance_blocks >= 0

    @rule(name=st.sampled_from("abcd"), whole=st.booleans())
    def end(self, name: str, whole: bool) -> None:
        context = self.ledger.end_episode(name, whole)
        assert (context is None) == (name not in self.contexts)
        self.contexts.pop(name, None)

    @invariant()
    def the_working_set_is_the_sum_over_living_episodes(self) -> None:
        snapshot = self.ledger.snapshot(self.now_s)
        assert snapshot.num_live == len(self.contexts)
        assert snapshot.working_set_tokens == sum(self.contexts.values())
        assert snapshot.working_set_blocks == sum(
            blocks_of(tokens, BLOCK) for tokens in self.contexts.values()
        )
        assert sum(snapshot.totals.turns.values()) == self.num_turns

    @invariant()
    def nothing_leaves_its_range(self) -> None:
        snapshot = self.ledger.snapshot(self.now_s)
        hit = snapshot.window.full_prefix_hit
        assert hit is None or 0.0 <= hit <= 1.0
        assert snapshot.forecast_blocks is not None
        assert snapshot.forecast_blocks >= 0
        for value in vars(snapshot.window).values():
            assert value >= 0


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
