"""A least-recently-used block cache in front of an engine that computes nothing."""

from __future__ import annotations

from collections import OrderedDict

from robot_sdk.messages import TokenUsage
from server.core.residency import blocks_of


class LruPool:
    """Serves turns and says what each found; whole blocks only, tail of a prompt evicted first."""

    def __init__(self, num_blocks: int, block_tokens: int) -> None:
        self.num_blocks = num_blocks
        self._block_tokens = block_tokens
        self._blocks: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._contexts: dict[str, int] = {}

    def turn(self, episode_id: str, new_tokens: int, output_tokens: int) -> TokenUsage:
        """The next turn of an episode."""
        prompt_tokens = self._contexts.get(episode_id, 0) + new_tokens
        cached_blocks = self._cached_blocks(episode_id)
        self._contexts[episode_id] = prompt_tokens + output_tokens
        self._touch(episode_id, blocks_of(prompt_tokens + output_tokens, self._block_tokens))
        cached_tokens = cached_blocks * self._block_tokens
        return TokenUsage(
            input_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            computed_tokens=prompt_tokens - cached_tokens,
            output_tokens=output_tokens,
            new_tokens=new_tokens,
        )

    def refresh(self, episode_id: str) -> bool:
        """Touch all whole blocks of an episode; whether they were still there."""
        whole = max(self._contexts[episode_id] - 1, 0) // self._block_tokens
        found = self._cached_blocks(episode_id) == whole
        self._touch(episode_id, whole)
        return found

    def _cached_blocks(self, episode_id: str) -> int:
        context_tokens, cached_blocks = self._contexts.get(episode_id, 0), 0
        # The last prompt token is always computed, and the last output token never was.
        while (cached_blocks + 1) * self._block_tokens < context_tokens and (
            episode_id,
            cached_blocks,
        ) in self._blocks:
            cached_blocks += 1
        return cached_blocks

    def _touch(self, episode_id: str, num_blocks: int) -> None:
        for index in reversed(range(num_blocks)):
            self._blocks.pop((episode_id, index), None)
            self._blocks[episode_id, index] = None
        while len(self._blocks) > self.num_blocks:
            self._blocks.popitem(last=False)
