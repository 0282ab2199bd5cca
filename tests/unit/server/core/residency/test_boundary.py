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


@pytest.mark.parametrize(
    ("interval_tokens", "prompt_tokens", "expected_prefix_tokens", "boundary"),
    [
        # The output fills blocks 4 to 6, and none of them is found again.
        (0, 60, 110, 48),
        (0, 64, 110, 48),
        (0, 65, 110, 64),
        # Every second block is kept besides.
        (32, 60, 110, 96),
        (32, 60, 97, 96),
        (32, 60, 96, 64),
        (32, 60, 64, 48),
        # Every block is.
        (16, 60, 110, 96),
        # A first turn, and a prompt shorter than one block.
        (0, 0, 0, 0),
        (0, 16, 110, 0),
        (64, 16, 110, 64),
    ],
)
def test_where_snapshots_are_kept_at_intervals_the_output_is_found_up_to_the_last_of_them(
    interval_tokens: int, prompt_tokens: int, expected_prefix_tokens: int, boundary: int
) -> None:
    found = full_prefix_boundary(
        expected_prefix_tokens,
        16,
        prompt_tokens=prompt_tokens,
        snapshot_interval_tokens=interval_tokens,
    )

    assert found == boundary


@given(st.integers(1, 10**6), st.integers(1, 1024))
def test_the_boundary_is_the_last_whole_block_below_the_prefix(
    prefix_tokens: int, block_tokens: int
) -> None:
    boundary = full_prefix_boundary(prefix_tokens, block_tokens)

    assert boundary % block_tokens == 0
    assert boundary < prefix_tokens <= boundary + block_tokens


@given(
    st.integers(0, 10**6),
    st.integers(0, 10**4),
    st.integers(1, 1024),
    st.none() | st.integers(0, 9),
)
def test_an_interval_never_adds_to_what_every_snapshot_gives_nor_takes_from_the_prompt(
    prompt_tokens: int, output_tokens: int, block_tokens: int, blocks_apart: int | None
) -> None:
    prefix_tokens = prompt_tokens + output_tokens
    interval_tokens = None if blocks_apart is None else blocks_apart * block_tokens
    boundary = full_prefix_boundary(
        prefix_tokens,
        block_tokens,
        prompt_tokens=prompt_tokens,
        snapshot_interval_tokens=interval_tokens,
    )

    assert boundary % block_tokens == 0
    assert boundary >= full_prefix_boundary(prompt_tokens, block_tokens)
    assert boundary <= full_prefix_boundary(prefix_tokens, block_tokens)
    if interval_tokens:
        assert prefix_tokens - boundary <= max(interval_tokens, prefix_tokens - prompt_tokens)


def test_one_block_less_than_the_boundary_is_a_miss() -> None:
    prefix = {"expected_prefix_tokens": 100_000, "block_tokens": 784}

    assert is_full_prefix_hit(cached_tokens=784 * 127, **prefix)
    assert not is_full_prefix_hit(cached_tokens=784 * 126, **prefix)


def test_a_block_that_only_the_output_filled_is_no_miss_where_its_snapshot_is_not_kept() -> None:
    turn = {"expected_prefix_tokens": 3_186, "block_tokens": 784, "prompt_tokens": 3_086}

    assert is_full_prefix_hit(cached_tokens=2_352, **turn, snapshot_interval_tokens=0)
    assert not is_full_prefix_hit(cached_tokens=2_352, **turn)
    assert not is_full_prefix_hit(cached_tokens=1_568, **turn, snapshot_interval_tokens=0)


def test_a_block_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="block_tokens is 0"):
        full_prefix_boundary(10, 0)
