"""What one turn asked of the prefix cache and what it got."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from robot_sdk.messages import TokenUsage
from server.core.residency.boundary import full_prefix_boundary
from server.core.residency.working_set import LiveContext


class PrefixOutcome(enum.Enum):
    """What a turn says about the prefix before it. Only HIT and MISS enter the hit rate."""

    HIT = "hit"
    MISS = "miss"
    #: The engine does not tell what it found in its cache. Zero would be a miss.
    UNKNOWN = "unknown"
    #: Nothing came before it.
    FIRST = "first"
    #: The conversation was made shorter, so that most of the old prefix was given up on purpose.
    REBUILD = "rebuild"
    #: None of the prefix could have been kept: it was shorter than one block, for example.
    TOO_SHORT = "too_short"


@dataclass(frozen=True)
class TurnFootprint:
    """One committed turn, in tokens. None is unknown.

    Attributes:
        committed_s: When it was committed, on the server's monotonic clock.
        input_tokens: The whole prompt.
        expected_prefix_tokens: Leading part of the prompt that the cache held, or should have held,
            after the previous turn: its prompt and output. 0 at a first turn; at a rebuild the part
            that was left as it was.
        reusable_tokens: Of that, what the cache can hand back with nothing lost; see
            `full_prefix_boundary`.
        cached_tokens: Leading part of the prompt that was found in the cache.
        computed_tokens: Prompt tokens that were computed.
        output_tokens: Tokens generated.
        is_rebuild: Older turns were dropped before this one.
    """

    committed_s: float
    input_tokens: int
    expected_prefix_tokens: int
    reusable_tokens: int
    cached_tokens: int | None
    computed_tokens: int | None
    output_tokens: int
    is_rebuild: bool = False

    @property
    def context_tokens(self) -> int:
        """Length of the conversation after this turn."""
        return self.input_tokens + self.output_tokens

    @property
    def least_computed_tokens(self) -> int:
        """What had to be computed even with everything reusable in the cache."""
        return self.input_tokens - self.reusable_tokens

    @property
    def outcome(self) -> PrefixOutcome:
        """Whether the whole reusable prefix was there."""
        if self.is_rebuild:
            return PrefixOutcome.REBUILD
        if self.expected_prefix_tokens == 0:
            return PrefixOutcome.FIRST
        if self.reusable_tokens == 0:
            return PrefixOutcome.TOO_SHORT
        if self.cached_tokens is None:
            return PrefixOutcome.UNKNOWN
        is_hit = self.cached_tokens >= self.reusable_tokens
        return PrefixOutcome.HIT if is_hit else PrefixOutcome.MISS


def footprint_of(
    usage: TokenUsage,
    previous: LiveContext,
    is_rebuild: bool,
    now_s: float,
    *,
    block_tokens: int,
    snapshot_interval_tokens: int | None = None,
) -> TurnFootprint | None:
    """The footprint of a turn from what its engine counted.

    Args:
        usage: Where `new_tokens` is unknown, the prefix is taken to be the previous turn whole.
        previous: The episode after its previous turn.
        is_rebuild: Older turns were dropped before this one.
        now_s: When the turn was committed.
        block_tokens: Of the engine's cache.
        snapshot_interval_tokens: Of the engine's cache, too; see `full_prefix_boundary`.

    Returns:
        None if not even the length of the prompt is known. Counts that contradict each other are
        brought into their range: no prefix or cached part is longer than the prompt.
    """
    if usage.input_tokens is None:
        return None
    input_tokens = max(usage.input_tokens, 0)
    prefix_tokens = previous.context_tokens
    if previous.context_tokens and usage.new_tokens is not None:
        prefix_tokens = input_tokens - usage.new_tokens
    prefix_tokens = _within(prefix_tokens, input_tokens)
    cached_tokens = usage.cached_tokens
    if cached_tokens is not None:
        cached_tokens = _within(cached_tokens, input_tokens)
    computed_tokens = usage.computed_tokens
    if computed_tokens is None and cached_tokens is not None:
        computed_tokens = input_tokens - cached_tokens
    return TurnFootprint(
        committed_s=now_s,
        input_tokens=input_tokens,
        expected_prefix_tokens=prefix_tokens,
        reusable_tokens=full_prefix_boundary(
            prefix_tokens,
            block_tokens,
            prompt_tokens=previous.prompt_tokens,
            snapshot_interval_tokens=snapshot_interval_tokens,
        ),
        cached_tokens=cached_tokens,
        computed_tokens=None if computed_tokens is None else max(computed_tokens, 0),
        output_tokens=max(usage.output_tokens or 0, 0),
        is_rebuild=is_rebuild,
    )


def _within(tokens: int, most_tokens: int) -> int:
    return min(max(tokens, 0), most_tokens)
