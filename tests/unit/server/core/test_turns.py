from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import CancelledByServerError, OutOfOrderError, TurnInProgressError
from server.core.turns import Attempt, Replay, TurnLog


def test_c4_a_committed_turn_is_replayed_and_never_run_again() -> None:
    log: TurnLog[str] = TurnLog()
    attempt = log.begin(0)
    assert isinstance(attempt, Attempt)
    log.commit(attempt, "answer")

    assert log.begin(0) == Replay("answer")
    assert log.num_committed == 1


def test_an_abandoned_attempt_leaves_no_trace() -> None:
    log: TurnLog[str] = TurnLog()
    first = log.begin(0)
    assert isinstance(first, Attempt)
    log.abandon(first)

    second = log.begin(0)

    assert isinstance(second, Attempt)
    with pytest.raises(CancelledByServerError):
        log.commit(first, "late")
    log.commit(second, "answer")
    assert log.begin(0) == Replay("answer")


def test_abandoning_a_stale_attempt_does_not_stop_the_newer_one() -> None:
    log: TurnLog[str] = TurnLog()
    first = log.begin(0)
    assert isinstance(first, Attempt)
    log.abandon(first)
    second = log.begin(0)

    log.abandon(first)

    assert isinstance(second, Attempt)
    assert log.is_current(second)


def test_a_turn_in_progress_is_retryable_soon() -> None:
    log: TurnLog[str] = TurnLog()
    log.begin(0)

    with pytest.raises(TurnInProgressError) as caught:
        log.begin(0)
    assert caught.value.retry_after_s == 0.1


def test_a_skipped_turn_is_out_of_order_and_names_what_is_allowed() -> None:
    with pytest.raises(OutOfOrderError, match=r"got 2.*allowed: 0\.\.0"):
        TurnLog[str]().begin(2)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40))
def test_turns_commit_once_each_and_in_order(steps: list[tuple[int, bool]]) -> None:
    log: TurnLog[int] = TurnLog()
    committed: list[int] = []
    for turn_index, commits in steps:
        try:
            begun = log.begin(turn_index)
        except OutOfOrderError:
            assert turn_index > len(committed)
            continue
        if isinstance(begun, Replay):
            assert begun.record == committed[turn_index]
        elif commits:
            log.commit(begun, len(committed) * 10)
            committed.append(len(committed) * 10)
        else:
            log.abandon(begun)
        assert log.num_committed == len(committed)
        assert not log.in_progress
