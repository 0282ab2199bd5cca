from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.residency import full_prefix_boundary, is_full_prefix_hit


@pytest.mark.parametrize(
    ("expected_prefix_tokens", "boundary"),
    [(0, 0), (1, 0), (16, 0), (17, 16), (32, 16), (33, 32), (100, 96)],
)
def test_only_whole_blocks_without_the_last_output_token_can_be_reused(
    expected_prefix_tokens: int, boundary: int
) -> None:
    assert full_prefix_boundary(expected_prefix_tokens, 16) == boundary


@given(st.integers(1, 10**6), st.integers(1, 1024))
def test_the_boundary_is_the_last_whole_block_below_the_prefix(
    prefix_tokens: int, block_tokens: int
) -> None:
    boundary = full_prefix_boundary(prefix_tokens, block_tokens)

    assert boundary % block_tokens == 0
    assert boundary < prefix_tokens <= boundary + block_tokens


def test_one_block_less_than_the_boundary_is_a_miss() -> None:
    prefix = {"expected_prefix_tokens": 100_000, "block_tokens": 784}

    assert is_full_prefix_hit(cached_tokens=784 * 127, **prefix)
    assert not is_full_prefix_hit(cached_tokens=784 * 126, **prefix)


def test_a_block_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="block_tokens is 0"):
        full_prefix_boundary(10, 0)
