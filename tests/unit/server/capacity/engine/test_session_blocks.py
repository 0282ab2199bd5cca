"""Names of a session's blocks stand for its tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import EngineSettings, SessionBlocks
from server.core.capacity import KvPool


def request(num_tokens, known=()):
    return SimpleNamespace(num_tokens=num_tokens, block_hashes=list(known))


@given(st.integers(0, 5_000), st.integers(0, 5_000), st.integers(1, 200))
def test_turns_of_a_session_share_every_block_that_both_reach(one, other, block_tokens):
    blocks = SessionBlocks("robot", block_tokens)
    shorter, longer = blocks(request(min(one, other))), blocks(request(max(one, other)))
    assert longer[: len(shorter)] == shorter
    assert len(longer) == max(one, other) // block_tokens
    assert len(set(longer)) == len(longer)


@given(st.integers(0, 3_000), st.integers(0, 3_000), st.integers(1, 100))
def test_only_blocks_that_the_request_lacks_are_named(before, grown, block_tokens):
    blocks = SessionBlocks("robot", block_tokens)
    known = blocks(request(before))
    later = blocks(request(before + grown, known))
    assert known + later == blocks(request(before + grown))


def test_sessions_share_no_block():
    one, other = SessionBlocks("1", 16), SessionBlocks("11", 16)
    assert not set(one(request(1_000))) & set(other(request(1_000)))


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
