"""How much of a conversation's prefix a block cache can hand back at the next turn."""

from __future__ import annotations


def full_prefix_boundary(
    expected_prefix_tokens: int,
    block_tokens: int,
    *,
    prompt_tokens: int = 0,
    snapshot_interval_tokens: int | None = None,
) -> int:
    """Largest number of tokens that a block cache can hold of an expected prefix.

    The expected prefix of a turn is prompt and output of the turn before it. Three things keep a
    cache from handing back all of it:

    - The last output token is sampled and never fed back, so its keys and values do not exist: at
      most `expected_prefix_tokens - 1` tokens can be cached.
    - Only whole blocks are found again. The tokens behind the last whole block are computed anew at
      every turn, whatever happened to the cache.
    - Models with a recurrent state or a sliding window (hybrid attention) go on only from a
      boundary at which the engine kept a snapshot. Without an interval there is one at every whole
      block that counts. With one, vLLM keeps the snapshot at the last whole block below the end of
      each *prompt*, and besides those only at multiples of the interval (0: none), so that blocks
      which the output filled are found again only up to the last multiple.

    With E the expected prefix, P the prompt in it, B the block and N the interval:

    - no interval: floor((E - 1) / B) x B
    - N = 0: floor((P - 1) / B) x B
    - N > 0: the larger of floor((P - 1) / B) x B and floor((E - 1) / N) x N

    A turn with at least this many cached tokens is a full-prefix hit. tests/fidelity holds the rule
    against vLLM's own scheduler for each kind of snapshot: an undisturbed turn finds exactly this.

    Args:
        expected_prefix_tokens: Tokens of the previous prompt and its output; 0 at a first turn.
        block_tokens: Tokens in one cache block; 1 for a cache that counts single tokens.
        prompt_tokens: Tokens of the previous prompt alone. Used where there is an interval.
        snapshot_interval_tokens: As of `EngineGauges`; vLLM takes multiples of the block alone.

    Returns:
        Tokens; 0 where nothing can be reused, for example a prefix shorter than one whole block.
    """
    if block_tokens < 1:
        raise ValueError(f"block_tokens is {block_tokens}; a block holds at least 1 token")
    cacheable_tokens = max(expected_prefix_tokens - 1, 0)
    if snapshot_interval_tokens is None:
        return _whole(cacheable_tokens, block_tokens)
    prompt_end = _whole(min(max(prompt_tokens - 1, 0), cacheable_tokens), block_tokens)
    if snapshot_interval_tokens == 0:
        return prompt_end
    return max(prompt_end, _whole(cacheable_tokens, snapshot_interval_tokens))


def _whole(tokens: int, unit_tokens: int) -> int:
    return tokens // unit_tokens * unit_tokens


def is_full_prefix_hit(
    *,
    cached_tokens: int,
    expected_prefix_tokens: int,
    block_tokens: int,
    prompt_tokens: int = 0,
    snapshot_interval_tokens: int | None = None,
) -> bool:
    """Whether the whole reusable part of the expected prefix was still cached."""
    return cached_tokens >= full_prefix_boundary(
        expected_prefix_tokens,
        block_tokens,
        prompt_tokens=prompt_tokens,
        snapshot_interval_tokens=snapshot_interval_tokens,
    )
