"""How many conversations keep their prefix: the estimate, and the count of blocks."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.core.capacity import (
    KvPool,
    cliff_sessions,
    prefill_snapshots,
    session_blocks,
    sessions_that_fit,
    starting_cap,
    turns_per_s,
)

STUDY_POOL = KvPool(num_blocks=4270, block_tokens=784, num_state_groups=3)

pools = st.builds(
    KvPool,
    num_blocks=st.integers(2, 100_000),
    block_tokens=st.integers(1, 4096),
    num_state_groups=st.integers(0, 8),
)
contexts = st.integers(1, 2_000_000)


def test_the_study_s_pool_and_workload_give_its_published_cliff_and_healthy_zone():
    larger = KvPool(num_blocks=4396, block_tokens=784)
    assert cliff_sessions(larger, 95_000) == pytest.approx(30.8, abs=0.05)
    assert cliff_sessions(larger, 136_000) == pytest.approx(21.5, abs=0.1)
    assert starting_cap(cliff_sessions(STUDY_POOL, 95_000)) == 20


def test_a_session_takes_whole_blocks_and_one_block_for_each_state():
    # 100,000 / 784 = 127.55 blocks.
    assert session_blocks(STUDY_POOL, 100_000) == 128 + 3
    assert session_blocks(KvPool(4270, 784), 100_000) == 128


def test_keeping_every_snapshot_costs_a_block_for_each_step_and_group():
    # A step of 16,384 tokens ends at 20 blocks = 15,680 tokens; 100,000 tokens take 7 of them.
    assert prefill_snapshots(100_000, 784, 16_384) == 7
    assert session_blocks(STUDY_POOL, 100_000, snapshots_per_group=7) == 128 + 3 * 7


def test_one_block_of_the_pool_is_the_engine_s_own():
    assert sessions_that_fit(KvPool(num_blocks=21, block_tokens=1), 10) == 2
    assert sessions_that_fit(KvPool(num_blocks=20, block_tokens=1), 10) == 1


def test_a_session_longer_than_the_pool_does_not_fit():
    pool = KvPool(num_blocks=10, block_tokens=16)
    assert sessions_that_fit(pool, session_blocks(pool, 1_000)) == 0
    assert starting_cap(cliff_sessions(pool, 1_000)) == 0


def test_turns_a_second_follow_little_s_law():
    assert turns_per_s(20, 9.4) == pytest.approx(2.128, abs=0.001)
    assert turns_per_s(0, 9.4) == 0


@given(pools, contexts)
def test_sessions_counted_in_blocks_fit_and_one_more_does_not(pool, context_tokens):
    blocks = session_blocks(pool, context_tokens)
    sessions = sessions_that_fit(pool, blocks)
    assert sessions * blocks < pool.num_blocks <= (sessions + 1) * blocks


@given(pools, contexts, contexts)
def test_longer_contexts_never_carry_more_sessions(pool, one, other):
    shorter, longer = sorted((one, other))
    assert session_blocks(pool, shorter) <= session_blocks(pool, longer)
    assert cliff_sessions(pool, shorter) >= cliff_sessions(pool, longer)


@given(st.floats(0, 1e9))
def test_the_starting_cap_is_two_thirds_of_the_cliff_to_the_nearest_episode(cliff):
    assert abs(starting_cap(cliff) - cliff * 2 / 3) <= 0.5 + 1e-6 * cliff


@given(contexts, st.integers(1, 4096), st.integers(1, 1_000_000))
def test_no_smaller_number_of_steps_computes_a_prompt(context_tokens, block_tokens, step_tokens):
    assume(step_tokens >= block_tokens)
    steps = prefill_snapshots(context_tokens, block_tokens, step_tokens)
    aligned_step = step_tokens // block_tokens * block_tokens
    assert (steps - 1) * aligned_step < context_tokens <= steps * aligned_step


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_blocks", 0),
        ("num_blocks", 1),
        ("num_blocks", -4270),
        ("num_blocks", 10**12),
        ("num_blocks", True),
        ("num_blocks", 4270.5),
        ("block_tokens", 0),
        ("block_tokens", 10**9),
        ("num_state_groups", -1),
        ("num_state_groups", 1000),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_value_and_range(field, value):
    good = {"num_blocks": 4270, "block_tokens": 784, "num_state_groups": 3}
    with pytest.raises(InvalidArgumentError) as error:
        KvPool(**{**good, field: value})
    assert str(value) in str(error.value)
    assert "a whole number from" in str(error.value)


@pytest.mark.parametrize("context_tokens", [0, -1, math.nan, math.inf, 1e12])
def test_a_context_that_cannot_be_is_refused(context_tokens):
    with pytest.raises(InvalidArgumentError, match="mean context tokens"):
        cliff_sessions(STUDY_POOL, context_tokens)
    with pytest.raises(InvalidArgumentError, match="mean context tokens"):
        session_blocks(STUDY_POOL, context_tokens)


def test_a_step_smaller_than_a_block_is_refused():
    with pytest.raises(InvalidArgumentError, match="step tokens"):
        prefill_snapshots(100_000, 784, 512)


@pytest.mark.parametrize("cycle_s", [0.0, -1.0, math.nan, math.inf])
def test_a_turn_cycle_that_cannot_be_is_refused(cycle_s):
    with pytest.raises(InvalidArgumentError, match="turn cycle"):
        turns_per_s(20, cycle_s)
