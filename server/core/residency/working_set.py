"""The contexts that the living episodes need to find again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Block size where neither engine nor configuration tells one: public endpoints count their cache
#: in steps of 128 tokens, the coarsest in use, so a hit is never mistaken for a miss by rounding.
ASSUMED_BLOCK_TOKENS = 128


def blocks_of(tokens: float, block_tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -int(-tokens // block_tokens)


@dataclass(frozen=True)
class LiveContext:
    """One admitted episode as the ledger knows it.

    Attributes:
        context_tokens: Prompt and output of the last turn.
        prompt_tokens: Its prompt alone.
        last_turn_s: On the server's clock.
    """

    episode_id: str
    task_family: str
    context_tokens: int = 0
    prompt_tokens: int = 0
    peak_tokens: int = 0
    num_turns: int = 0
    last_turn_s: float | None = None


class WorkingSet:
    """Every living episode's context and their sums, kept as they change."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._contexts: dict[str, LiveContext] = {}
        self.total_tokens = 0
        self.total_blocks = 0
        self.num_with_turns = 0

    def __iter__(self) -> Iterator[LiveContext]:
        return iter(self._contexts.values())

    def __len__(self) -> int:
        return len(self._contexts)

    def get(self, episode_id: str) -> LiveContext | None:
        return self._contexts.get(episode_id)

    def put(self, context: LiveContext) -> None:
        """Add an episode or replace what was known of it."""
        self.remove(context.episode_id)
        self._contexts[context.episode_id] = context
        self._count(context, 1)

    def remove(self, episode_id: str) -> LiveContext | None:
        """Take an episode out; None if it is not there."""
        context = self._contexts.pop(episode_id, None)
        if context is not None:
            self._count(context, -1)
        return context

    def _count(self, context: LiveContext, sign: int) -> None:
        self.total_tokens += sign * context.context_tokens
        self.total_blocks += sign * blocks_of(context.context_tokens, self._block_tokens)
        self.num_with_turns += sign * (context.num_turns > 0)
