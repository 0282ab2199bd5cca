from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.messages import TokenUsage
from server.core.residency import LiveContext, PrefixOutcome, TurnFootprint
from server.core.residency.footprint import footprint_of

BLOCK = 16
tokens = st.none() | st.integers(-5, 10_000)


def footprint_after(
    previous: int,
    usage: TokenUsage,
    is_rebuild: bool = False,
    prompt: int = 0,
    interval: int | None = None,
) -> TurnFootprint | None:
    before = LiveContext("episode", "", context_tokens=previous, prompt_tokens=prompt)
    return footprint_of(
        usage, before, is_rebuild, 0.0, block_tokens=BLOCK, snapshot_interval_tokens=interval
    )


def outcome(usage: TokenUsage, previous: int, is_rebuild: bool = False) -> PrefixOutcome:
    footprint = footprint_after(previous, usage, is_rebuild)
    assert footprint is not None
    return footprint.outcome


def test_a_first_turn_has_no_prefix_to_lose_even_if_some_of_it_was_cached() -> None:
    usage = TokenUsage(input_tokens=100, cached_tokens=32, output_tokens=5, new_tokens=20)

    assert outcome(usage, previous=0) is PrefixOutcome.FIRST


def test_the_expected_prefix_is_the_prompt_without_what_is_new() -> None:
    footprint = footprint_after(105, TokenUsage(input_tokens=130, new_tokens=25))

    assert footprint is not None
    assert footprint.expected_prefix_tokens == 105
    assert footprint.least_computed_tokens == 130 - 96


def test_without_new_tokens_the_whole_last_turn_is_expected() -> None:
    footprint = footprint_after(105, TokenUsage(input_tokens=130))

    assert footprint is not None
    assert footprint.expected_prefix_tokens == 105


@pytest.mark.parametrize(
    ("cached_tokens", "expected"),
    [(96, PrefixOutcome.HIT), (95, PrefixOutcome.MISS), (0, PrefixOutcome.MISS)],
)
def test_a_hit_is_every_whole_block_of_the_prefix(
    cached_tokens: int, expected: PrefixOutcome
) -> None:
    usage = TokenUsage(input_tokens=130, cached_tokens=cached_tokens, new_tokens=25)

    assert outcome(usage, previous=105) is expected


@pytest.mark.parametrize(
    ("interval", "expected"),
    [(None, PrefixOutcome.MISS), (0, PrefixOutcome.HIT), (32, PrefixOutcome.MISS)],
)
def test_where_snapshots_are_kept_at_prompts_alone_the_part_that_the_output_filled_is_no_miss(
    interval: int | None, expected: PrefixOutcome
) -> None:
    usage = TokenUsage(input_tokens=130, cached_tokens=80, new_tokens=25)
    footprint = footprint_after(105, usage, prompt=90, interval=interval)

    assert footprint is not None
    assert footprint.outcome is expected


def test_a_prefix_whose_prompt_was_shorter_than_a_block_cannot_be_lost_without_more_snapshots() -> (
    None
):
    usage = TokenUsage(input_tokens=130, cached_tokens=0, new_tokens=25)
    footprint = footprint_after(105, usage, prompt=10, interval=0)

    assert footprint is not None
    assert footprint.outcome is PrefixOutcome.TOO_SHORT


def test_d6_unknown_cached_tokens_are_neither_hit_nor_miss() -> None:
    usage = TokenUsage(input_tokens=130, cached_tokens=None, new_tokens=25)

    assert outcome(usage, previous=105) is PrefixOutcome.UNKNOWN


def test_d5_a_rebuild_turn_is_no_miss() -> None:
    usage = TokenUsage(input_tokens=60, cached_tokens=16, new_tokens=40)

    assert outcome(usage, previous=105, is_rebuild=True) is PrefixOutcome.REBUILD


def test_a_prefix_shorter_than_a_block_cannot_be_lost() -> None:
    usage = TokenUsage(input_tokens=40, cached_tokens=0, new_tokens=24)

    assert outcome(usage, previous=16) is PrefixOutcome.TOO_SHORT


def test_computed_follows_from_cached_where_the_engine_tells_only_one() -> None:
    footprint = footprint_after(105, TokenUsage(input_tokens=130, cached_tokens=96))

    assert footprint is not None
    assert footprint.computed_tokens == 34


def test_a_turn_of_unknown_length_has_no_footprint() -> None:
    assert footprint_after(10, TokenUsage(cached_tokens=5)) is None


@given(
    tokens,
    tokens,
    tokens,
    tokens,
    tokens,
    st.integers(0, 10_000),
    st.booleans(),
    st.integers(0, 10_000),
    st.none() | st.integers(0, 500),
)
def test_whatever_an_engine_counts_nothing_is_negative_or_longer_than_the_prompt(
    input_tokens: int | None,
    cached: int | None,
    computed: int | None,
    output: int | None,
    new: int | None,
    previous: int,
    is_rebuild: bool,
    prompt: int,
    interval: int | None,
) -> None:
    usage = TokenUsage(input_tokens, cached, computed, output, new)
    footprint = footprint_after(previous, usage, is_rebuild, prompt, interval)

    if input_tokens is None:
        assert footprint is None
        return
    assert footprint is not None
    assert 0 <= footprint.reusable_tokens <= footprint.expected_prefix_tokens
    assert footprint.expected_prefix_tokens <= footprint.input_tokens
    assert footprint.cached_tokens is None or 0 <= footprint.cached_tokens <= footprint.input_tokens
    assert footprint.computed_tokens is None or footprint.computed_tokens >= 0
    assert footprint.output_tokens >= 0
    assert footprint.least_computed_tokens >= 0
