from __future__ import annotations

import itertools

from robot_sdk.clock import VirtualClock
from robot_sdk.messages import BrainTiming, TokenUsage, TurnResult
from server.core.residency import EngineGauges
from sim.fleet.live.books import Books
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace

TRACE = EpisodeTrace("a", "sort", (TurnTrace(100, 10),))


def turn(prompt_tokens: int, cached_tokens: int | None) -> TurnResult:
    """An answer that took 2 s."""
    usage = TokenUsage(input_tokens=prompt_tokens, cached_tokens=cached_tokens, output_tokens=10)
    return TurnResult(0, "", "", (), "stop", usage, BrainTiming(), started_s=5.0, ended_s=7.0)


def books(snapshot_interval_tokens: int | None = None) -> tuple[Books, VirtualClock]:
    clock = VirtualClock(50.0)
    found = Books(itertools.repeat(TRACE), None, 0.0, clock)
    found.set_pool(
        EngineGauges(block_tokens=100, snapshot_interval_tokens=snapshot_interval_tokens)
    )
    found.join(0)
    found.start()
    return found, clock


def test_times_count_from_the_start_and_a_pause_ends_with_the_run() -> None:
    found, clock = books()
    assert found.pause(3.0) is True
    assert found.now_s() == 3.0
    found.stop()
    assert found.pause(3.0) is False
    assert clock.now_s() == 53.0


def test_a_hit_is_by_the_servers_rule_for_models_with_snapshots() -> None:
    # Behind a prompt of 195 tokens and an answer of 10, two whole blocks hold; a snapshot stands
    # only at the end of the prompt's last whole block.
    for interval, hits in ((None, 0), (0, 1)):
        found, _ = books(interval)
        record = found.came_in("id", "sort", 0.0)
        found.turn_ended("id", record, turn(195, 0), 195, 10)
        found.turn_ended("id", record, turn(300, 100), 300, 10)
        assert found.tally.total.hits == hits
        assert found.tally.total.misses == 1 - hits


def test_an_engine_that_does_not_tell_what_was_cached_gives_neither_hits_nor_misses() -> None:
    found, _ = books()
    record = found.came_in("id", "sort", 0.0)
    for prompt_tokens in (300, 400):
        found.turn_ended("id", record, turn(prompt_tokens, None), prompt_tokens, 10)
    assert found.tally.total.turns == 2
    assert found.tally.total.hit is None


def test_what_comes_after_the_end_does_not_count_and_the_first_reason_stays() -> None:
    found, _ = books()
    record = found.came_in("id", "sort", 0.0)
    found.stop(ValueError("first"))
    found.stop()
    found.turn_ended("id", record, turn(300, 0), 300, 10)
    found.ended(0, "id", record, is_complete=True)
    assert found.tally.total.turns == 0
    assert found.tally.total.episodes == 0
    assert record.latencies_s == []
    assert str(found.error) == "first"


def test_an_episode_counts_for_its_robot_only_at_its_end() -> None:
    found, clock = books()
    clock.advance(4.0)
    record = found.came_in("id", "sort", 1.0)
    assert record.door_wait_s == 3.0
    found.turn_ended("id", record, turn(300, 0), 300, 10)
    found.ended(0, "id", record, is_complete=False)
    assert found.tally.episodes_by_robot == {0: 0}
    found.ended(0, "id", record, is_complete=True)
    assert found.tally.episodes_by_robot == {0: 1}
    assert record.latencies_s == [2.0]
