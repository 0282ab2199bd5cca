"""How much of a conversation's prefix a block cache can hand back at the next turn."""

from __future__ import annotations


def full_prefix_boundary(expected_prefix_tokens: int, block_tokens: int) -> int:
    """Largest number of tokens that a block cache can hold of an expected prefix.

    The expected prefix of a turn is prompt and output of the turn before it. Two things keep a
    cache from handing back all of it:

    - The last output token is sampled and never fed back, so its keys and values do not exist: at
      most `expected_prefix_tokens - 1` tokens can be cached.
    - Only whole blocks are found again. The tokens behind the last whole block are computed anew at
      every turn, whatever happened to the cache.

    Hence floor((expected_prefix_tokens - 1) / block_tokens) * block_tokens. A turn with at least
    this many cached tokens is a full-prefix hit. Models with state groups (hybrid attention) have
    the same boundary if the engine keeps a state snapshot at every whole block that a turn's prompt
    or output completes, as vLLM does in its "align" mode. Where snapshots are kept more rarely, the
    reusable boundary lies lower and this one counts a reuse up to there as a miss.

    Args:
        expected_prefix_tokens: Tokens of the previous prompt and its output; 0 at a first turn.
        block_tokens: Tokens in one cache block; 1 for a cache that counts single tokens.

    Returns:
        Tokens; 0 where the prefix is shorter than one whole block and nothing can be reused.
    """
    if block_tokens < 1:
        raise ValueError(f"block_tokens is {block_tokens}; a block holds at least 1 token")
    return max(expected_prefix_tokens - 1, 0) // block_tokens * block_tokens


def is_full_prefix_hit(cached_tokens: int, expected_prefix_tokens: int, block_tokens: int) -> bool:
    """Whether the whole reusable part of the expected prefix was still cached."""
    return cached_tokens >= full_prefix_boundary(expected_prefix_tokens, block_tokens)
