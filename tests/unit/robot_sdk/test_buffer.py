from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from robot_sdk.buffer import ChunkBuffer, MergeResult
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.merging import MERGE_FUNCTIONS

POLICIES = sorted(MERGE_FUNCTIONS)


def _chunk(first_step: int, num_rows: int) -> np.ndarray:
    """Each row says which step it is for."""
    return np.arange(first_step, first_step + num_rows, dtype=np.float32)[:, np.newaxis]


@pytest.mark.parametrize("merge", POLICIES)
def test_row_i_belongs_to_step_of_the_observation_plus_i(merge):
    buffer = ChunkBuffer(merge)
    buffer.merge(7, _chunk(7, 3), now_step=7)
    assert [buffer.pop(step) for step in range(7, 11)] == [7, 8, 9, None]


def test_rows_of_steps_that_are_over_are_dropped_and_counted():
    buffer = ChunkBuffer()
    assert buffer.merge(0, _chunk(0, 10), now_step=4) == MergeResult(4, 4)
    assert buffer.pop(4) == 4
    assert buffer.dropped_rows == 4


def test_chunk_that_is_late_as_a_whole_changes_nothing():
    buffer = ChunkBuffer()
    buffer.merge(5, _chunk(5, 10), now_step=12)
    assert buffer.merge(6, _chunk(6, 4), now_step=12) == MergeResult(None, 4)
    assert buffer.pop(12) == 12


def test_skipped_steps_are_never_handed_out_later():
    buffer = ChunkBuffer()
    buffer.merge(0, _chunk(0, 10), now_step=0)
    assert buffer.pop(6) == 6
    assert buffer.pop(3) is None
    assert buffer.pop(6) is None
    assert buffer.dropped_rows == 6


def test_chunk_of_an_older_observation_is_dropped_and_counted():
    buffer = ChunkBuffer()
    buffer.merge(5, _chunk(5, 3), now_step=5)
    assert buffer.merge(4, _chunk(4, 9), now_step=5) == MergeResult(None, 9, outdated=True)
    assert buffer.remaining(5) == 3
    assert buffer.outdated_chunks == 1


def test_merge_does_not_bring_back_a_step_that_was_handed_out():
    buffer = ChunkBuffer()
    buffer.merge(0, _chunk(0, 5), now_step=0)
    buffer.pop(0)
    assert buffer.merge(0, _chunk(0, 5), now_step=0) == MergeResult(1, 1)
    assert buffer.pop(0) is None


def test_asking_for_a_step_that_is_over_does_not_reopen_it():
    buffer = ChunkBuffer()
    buffer.pop(6)
    assert buffer.pop(3) is None
    assert buffer.merge(0, _chunk(0, 10), now_step=0).applied_step == 7


def test_remaining_counts_up_to_the_first_gap():
    buffer = ChunkBuffer()
    buffer.merge(0, _chunk(0, 5), now_step=0)
    assert [buffer.remaining(step) for step in (0, 3, 5)] == [5, 2, 0]


def test_clear_leaves_nothing_of_the_old_instruction():
    buffer = ChunkBuffer("temporal_ensemble")
    buffer.merge(5, _chunk(5, 10), now_step=5)
    buffer.clear()
    assert buffer.pop(6) is None
    assert buffer.merge(3, _chunk(3, 10), now_step=7).applied_step == 7
    assert buffer.pop(7) == 7


def test_merged_rows_do_not_share_memory_with_the_chunk():
    buffer, chunk = ChunkBuffer(), _chunk(0, 3)
    buffer.merge(0, chunk, now_step=0)
    chunk[:] = 99
    assert buffer.pop(0) == 0


def test_read_only_chunk_is_accepted_by_every_policy():
    chunk = _chunk(0, 4)
    chunk.setflags(write=False)
    for merge in POLICIES:
        buffer = ChunkBuffer(merge)
        buffer.merge(0, chunk, now_step=0)
        buffer.merge(1, chunk, now_step=1)
        assert buffer.pop(1) is not None


def test_unknown_merge_policy_names_the_known_ones():
    with pytest.raises(InvalidArgumentError, match="linear_blend"):
        ChunkBuffer("average")


def test_chunk_without_rows_is_refused():
    with pytest.raises(InvalidArgumentError):
        ChunkBuffer().merge(0, np.zeros((0, 7), np.float32), now_step=0)


@given(st.sampled_from(POLICIES), st.data())
@settings(max_examples=50, deadline=None)
def test_blending_stays_within_the_predictions_of_that_step(merge, data):
    buffer = ChunkBuffer(merge)
    predictions: dict[int, list[float]] = {}
    for step in range(0, 12, 3):
        values = data.draw(st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6))
        buffer.merge(step, np.array(values, np.float32)[:, np.newaxis], now_step=step)
        for i, value in enumerate(values):
            predictions.setdefault(step + i, []).append(value)
    for step in range(9, 15):
        (value,) = buffer.pop(step)
        low, high = min(predictions[step]), max(predictions[step])
        assert low - 1e-6 <= value <= high + 1e-6


class BufferMachine(RuleBasedStateMachine):
    """Any order of merges, ticks, jumps and clears, against what may ever be handed out."""

    def __init__(self):
        super().__init__()
        self.buffer = ChunkBuffer()
        self.step = 0
        self.popped: list[int] = []

    @rule(age=st.integers(0, 15), num_rows=st.integers(1, 12))
    def merge(self, age, num_rows):
        control_step = max(0, self.step - age)
        result = self.buffer.merge(control_step, _chunk(control_step, num_rows), self.step)
        assert 0 <= result.dropped_rows <= num_rows
        if result.applied_step is not None:
            assert result.applied_step == max(control_step, self.step)
            assert result.dropped_rows == result.applied_step - control_step

    @rule(skipped=st.integers(0, 4))
    def tick(self, skipped):
        self.step += skipped
        row = self.buffer.pop(self.step)
        if row is not None:
            # The row says which step it was meant for.
            assert row.tolist() == [self.step]
            self.popped.append(self.step)
        self.step += 1

    @rule()
    def clear(self):
        self.buffer.clear()
        assert self.buffer.remaining(self.step) == 0

    @invariant()
    def each_step_at_most_once_and_in_order(self):
        assert self.popped == sorted(set(self.popped))


TestBufferMachine = BufferMachine.TestCase
TestBufferMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_leading_rows_end_at_the_first_gap_and_stay_in_the_buffer():
    buffer = ChunkBuffer()
    buffer.merge(3, np.arange(3, 7, dtype=np.float32)[:, np.newaxis], 3)
    assert buffer.leading_rows(4, 2).tolist() == [[4.0], [5.0]]
    assert buffer.leading_rows(5, 9).tolist() == [[5.0], [6.0]]
    assert buffer.leading_rows(7, 9) is None
    assert buffer.leading_rows(4, 0) is None
    assert buffer.remaining(3) == 4
