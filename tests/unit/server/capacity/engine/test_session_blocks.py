"""Names of a session's blocks stand for its tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import EngineSettings, SessionBlocks
from server.core.capacity import KvPool


@given(st.integers(0, 5_000), st.integers(0, 5_000), st.integers(1, 200))
def test_turns_of_a_session_share_every_block_that_both_reach(one, other, block_tokens):
    blocks = SessionBlocks("robot", block_tokens)
    shorter = list(blocks.up_to(min(one, other)))
    longer = blocks.up_to(max(one, other))
    assert longer[: len(shorter)] == shorter
    assert len(longer) == max(one, other) // block_tokens
    assert len(set(longer)) == len(longer)


def test_sessions_share_no_block():
    one, other = SessionBlocks("1", 16), SessionBlocks("11", 16)
    assert not set(one.up_to(1_000)) & set(other.up_to(1_000))


@given(st.integers(0, 3_000), st.integers(0, 3_000), st.integers(0, 3_000))
def test_a_branch_shares_the_whole_blocks_that_were_kept_and_no_other(reached, kept, grown):
    blocks = SessionBlocks("robot", 16)
    blocks.up_to(reached)
    branch = blocks.branch("robot-b", kept)
    own, others = blocks.up_to(kept + grown), branch.up_to(kept + grown)
    assert own[: kept // 16] == others[: kept // 16]
    assert not set(own[kept // 16 :]) & set(others[kept // 16 :])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_tokens", 100),
        ("max_sequences", 0),
        ("max_context_tokens", 10),
        ("retention_tokens", -784),
        ("retention_tokens", 1_000),
    ],
)
def test_settings_that_cannot_be_are_refused_with_their_value(name, value):
    with pytest.raises(InvalidArgumentError, match=str(value)):
        EngineSettings(KvPool(4270, 784, 3), **{name: value})
