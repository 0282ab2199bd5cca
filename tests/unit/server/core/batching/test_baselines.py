from __future__ import annotations

import pytest

from server.core.batching import (
    STUDY_TABLE,
    Accepted,
    Batcher,
    EdfBatcher,
    LatencyLearner,
    LookaheadBatcher,
    RoundRobinBatcher,
    StreamRate,
    Waiting,
    make_batcher,
)
from server.core.batching.due import due_s

RATE = StreamRate(20.0, executed_steps=5, horizon=10)


def waiting(stream: int, buffered_steps: int | None, arrived_s: float = 0.0) -> Waiting[None]:
    return Waiting(stream, 0, arrived_s, None, None, 0, buffered_steps)


def filled(batcher: Batcher[None], rows: dict[int, int]) -> Batcher[None]:
    for stream, buffered_steps in rows.items():
        batcher.open_stream(stream, RATE, 0.0)
        batcher.add(waiting(stream, buffered_steps))
    return batcher


def taken(batcher: Batcher[None]) -> list[int]:
    return [item.stream for item in batcher.take(0.0).items]


def test_a_chunk_is_due_when_the_rows_run_out() -> None:
    assert due_s(waiting(1, 3, 7.0), RATE) == pytest.approx(7.15)


@pytest.mark.parametrize("buffered_steps", [0, None])
def test_a_robot_without_rows_is_due_one_cycle_after_it_asked(buffered_steps: int | None) -> None:
    assert due_s(waiting(1, buffered_steps, 7.0), RATE) == pytest.approx(7.25)


def test_a_stream_without_a_rate_is_due_when_its_observation_expires() -> None:
    assert due_s(Waiting(1, 0, 0.0, 3.0, None), None) == 3.0
    assert due_s(waiting(1, 3), None) == float("inf")


def test_edf_takes_those_whose_rows_run_out_first() -> None:
    batcher = filled(EdfBatcher(2), {1: 9, 2: 3, 3: 5, 4: 1})
    assert taken(batcher) == [4, 2]
    assert taken(batcher) == [3, 1]


def test_round_robin_goes_on_after_the_last_stream_it_served() -> None:
    batcher = filled(RoundRobinBatcher(2), {1: 5, 2: 5, 3: 5})
    assert taken(batcher) == [1, 2]
    batcher.add(waiting(1, 5))
    batcher.add(waiting(2, 5))
    assert taken(batcher) == [3, 1]


def test_lookahead_leaves_out_those_that_have_time_for_the_next_batch() -> None:
    batcher = filled(LookaheadBatcher(64, LatencyLearner(STUDY_TABLE)), {1: 4, 2: 4, 3: 9, 4: 9})
    assert taken(batcher) == [1, 2, 3, 4]
    batcher = filled(
        LookaheadBatcher(64, LatencyLearner(STUDY_TABLE)), {1: 4, **dict.fromkeys(range(2, 9), 9)}
    )
    assert taken(batcher) == [1, *range(2, 5)]


def test_lookahead_takes_all_while_it_knows_no_latency() -> None:
    assert taken(filled(LookaheadBatcher(64), {1: 1, 2: 9, 3: 9})) == [1, 2, 3]


@pytest.mark.parametrize("name", ["fifo", "round_robin", "edf", "lookahead"])
def test_a_batcher_that_does_not_pace_accepts_all_and_says_nothing_about_when(name: str) -> None:
    batcher = make_batcher(name, 4)
    assert batcher.open_stream(1, RATE, 0.0) == Accepted(None)
    assert batcher.next_observation_in_s(1, 0.0) is None
    status = batcher.status(0.0)
    assert (status.name, status.num_streams, status.cycle_s) == (name, 1, None)


def test_a_batcher_counts_what_it_gave_up() -> None:
    batcher = make_batcher("edf", 4)
    batcher.add(Waiting(1, 0, 0.0, 1.0, None))
    assert len(batcher.take(1.0).expired) == 1
    assert batcher.status(1.0).num_expired == 1


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'best'; allowed: deadline, fifo, round_robin"):
        make_batcher("best", 4)


def test_a_table_must_reach_the_largest_batch() -> None:
    with pytest.raises(ValueError, match=r"max_batch is 65, but the latency table .* ends at 64"):
        make_batcher("deadline", 65, table=STUDY_TABLE)
