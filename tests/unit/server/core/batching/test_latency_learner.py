from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.batching import STUDY_TABLE, LatencyLearner
from server.core.batching.latency_learner import ENOUGH, WARMUPS_PER_SIZE, WINDOW


def see(learner: LatencyLearner, size: int, latency_s: float, times: int = ENOUGH) -> None:
    for _ in range(times):
        learner.add(0, size, latency_s)


def test_nothing_is_known_without_a_table_or_batches() -> None:
    assert LatencyLearner().expected_s(1) is None


def test_a_table_is_believed_until_enough_batches_were_seen() -> None:
    learner = LatencyLearner(STUDY_TABLE)
    see(learner, 1, 0.05, WARMUPS_PER_SIZE + ENOUGH - 1)
    assert learner.expected_s(1) == 0.160
    see(learner, 1, 0.05, 1)
    assert learner.expected_s(1) == 0.05


def test_warm_up_batches_do_not_count() -> None:
    learner = LatencyLearner()
    see(learner, 1, 9.0, WARMUPS_PER_SIZE)
    see(learner, 1, 0.1)
    assert learner.expected_s(1) == 0.1


def test_a_worker_that_starts_anew_warms_up_anew() -> None:
    learner = LatencyLearner()
    see(learner, 1, 0.1, WARMUPS_PER_SIZE + ENOUGH)
    learner.forget_warmth(0)
    see(learner, 1, 9.0, WARMUPS_PER_SIZE)
    assert learner.expected_s(1) == 0.1


def test_one_slow_batch_among_many_is_ignored_and_slowness_that_stays_is_not() -> None:
    learner = LatencyLearner()
    see(learner, 1, 0.1, WINDOW)
    see(learner, 1, 5.0, 1)
    assert learner.expected_s(1) == 0.1
    see(learner, 1, 5.0, WINDOW)
    assert learner.expected_s(1) == 5.0


def test_a_machine_that_is_half_as_fast_as_the_table_is_so_at_every_size() -> None:
    learner = LatencyLearner(STUDY_TABLE)
    see(learner, 1, 0.320, WARMUPS_PER_SIZE + ENOUGH)
    assert learner.expected_s(8) == pytest.approx(0.498)


def test_without_a_table_sizes_between_are_interpolated_and_larger_ones_proportional() -> None:
    learner = LatencyLearner()
    see(learner, 2, 0.2, WARMUPS_PER_SIZE + ENOUGH)
    see(learner, 4, 0.3, WARMUPS_PER_SIZE + ENOUGH)
    assert [learner.expected_s(size) for size in (1, 3, 8)] == pytest.approx([0.2, 0.25, 0.6])


def test_a_table_that_does_not_reach_a_size_says_so() -> None:
    with pytest.raises(ValueError, match="65 was not measured"):
        LatencyLearner(STUDY_TABLE).expected_s(65)


@pytest.mark.parametrize("latency_s", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_duration_is_ignored(latency_s: float) -> None:
    learner = LatencyLearner()
    see(learner, 1, latency_s, 10)
    assert learner.expected_s(1) is None


def test_the_status_says_from_how_many_batches_a_size_was_learned() -> None:
    learner = LatencyLearner(STUDY_TABLE)
    see(learner, 8, 0.2, WARMUPS_PER_SIZE + ENOUGH)
    assert [(row.batch_size, row.num_samples) for row in learner.measured()] == [
        (1, 0),
        (8, ENOUGH),
        (64, 0),
    ]


@given(
    st.lists(st.tuples(st.integers(1, 64), st.floats(0.001, 2.0)), max_size=8),
    st.booleans(),
)
def test_a_larger_batch_is_never_expected_to_be_faster(
    seen: list[tuple[int, float]], has_table: bool
) -> None:
    learner = LatencyLearner(STUDY_TABLE if has_table else None)
    for size, latency_s in seen:
        see(learner, size, latency_s, WARMUPS_PER_SIZE + ENOUGH)
    expected = [learner.expected_s(size) or 0.0 for size in range(1, 65)]
    assert all(a <= b + 1e-12 for a, b in zip(expected, expected[1:]))
