from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.residency import PRIOR_SHARE, CapacityEstimate
from server.core.residency.capacity import CapacityLearner


def learned(hits: list[int], misses: list[int], now_s: float = 0.0) -> CapacityEstimate:
    learner = CapacityLearner()
    for blocks in hits:
        learner.add(blocks, True, now_s)
    for blocks in misses:
        learner.add(blocks, False, now_s)
    return learner.estimate(now_s)


def test_nothing_is_known_before_the_first_turn() -> None:
    assert learned([], []) == CapacityEstimate(None, None)


def test_the_capacity_lies_between_what_survived_and_what_was_lost() -> None:
    estimate = learned(hits=[1000, 2000, 3584], misses=[4096, 5000])

    assert estimate.survived_blocks == pytest.approx(3584, rel=0.02)
    assert estimate.survived_blocks <= 3584
    assert estimate.lost_blocks == pytest.approx(4096, rel=0.02)


def test_a_stray_miss_among_many_hits_moves_nothing() -> None:
    estimate = learned(hits=[3000] * 50, misses=[1500])

    assert estimate.survived_blocks == pytest.approx(3000, rel=0.02)
    assert estimate.lost_blocks is None


def test_of_two_cuts_that_explain_as_much_the_lower_counts() -> None:
    estimate = learned(hits=[100, 300], misses=[200])

    assert estimate.survived_blocks == pytest.approx(100, rel=0.02)
    assert estimate.lost_blocks == pytest.approx(200, rel=0.02)


def test_a_pool_that_is_smaller_than_told_is_found_out() -> None:
    estimate = learned(hits=[900] * 20, misses=[1200] * 20)

    assert estimate.usable_blocks(pool_blocks=4270) == pytest.approx(1200, rel=0.02)


def test_more_than_the_rule_of_thumb_is_used_once_it_was_seen_to_survive() -> None:
    assert learned(hits=[950] * 5, misses=[]).usable_blocks(1000) == pytest.approx(950, rel=0.02)


def test_before_anything_was_lost_the_rule_of_thumb_counts() -> None:
    assert learned(hits=[100], misses=[]).usable_blocks(1000) == int(PRIOR_SHARE * 1000)


def test_without_a_pool_only_a_loss_says_where_the_end_is() -> None:
    assert learned(hits=[100], misses=[]).usable_blocks(None) is None
    assert learned(hits=[100], misses=[200]).usable_blocks(None) == pytest.approx(100, rel=0.02)


def test_old_evidence_fades() -> None:
    learner = CapacityLearner()
    for _ in range(10):
        learner.add(2000, False, 0.0)
    for second in range(40):
        learner.add(3000, True, 6 * 3600.0 + second)

    assert learner.estimate(6 * 3600.0 + 60).survived_blocks == pytest.approx(3000, rel=0.02)
    assert learner.estimate(1e9) == CapacityEstimate(None, None)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=50),
    st.none() | st.integers(1, 10**6),
)
def test_estimates_are_in_order_and_never_negative(
    turns: list[tuple[int, bool]], pool_blocks: int | None
) -> None:
    estimate = learned([n for n, hit in turns if hit], [n for n, hit in turns if not hit])
    usable = estimate.usable_blocks(pool_blocks)

    assert usable is None or usable >= 0
    if estimate.survived_blocks is not None and estimate.lost_blocks is not None:
        assert 0 < estimate.survived_blocks < estimate.lost_blocks


@given(st.integers(60, 4000), st.lists(st.integers(1, 5000), min_size=60, max_size=200))
def test_a_clean_cut_is_found_to_within_a_bin(cut: int, sizes: list[int]) -> None:
    estimate = learned([n for n in sizes if n <= cut], [n for n in sizes if n > cut])

    if estimate.survived_blocks is not None:
        assert estimate.survived_blocks <= cut
    if estimate.lost_blocks is not None:
        # A bin may hold both sides of the cut.
        assert estimate.lost_blocks * 1.03 >= cut
