"""KV blocks in host memory: a model of what an engine with such a tier would do, not measured.

- What a turn's prefill leaves behind is copied to host memory when it is computed, blocks of
  attention and one state of each group, and stays there after the pool has evicted it.
- Host memory holds whole sessions and forgets the one that was used longest ago. A hybrid model
  cannot go on from a part of a prefix, since the state at its end is missing. It does not know that
  an episode has ended.
- A turn whose prefix has left the pool and is in host memory loads it: bytes over bandwidth. The
  scheduler still gives it blocks and a share of each step as if it were computed, so the pool is as
  it would be. A load runs beside what the step computes, and the step ends when both have. With
  small steps this makes loads slower than a link is; use large ones.
- Copies in both directions share one link, in the order in which they are asked for.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import EngineSettings, ScheduledTokens, SessionBlocks, Turn
from server.core.residency import full_prefix_boundary
from sim.fleet.replay.settings import OffloadChoice

#: Of Qwen3.6-27B: 16 of its 64 layers have attention, with keys and values of 4 heads of 256, in
#: two bytes (published model descriptions; Qwen3.5-27B's for the heads). It is consistent with the
#: study: a state of the other layers (48 heads of 128 x 128 in four bytes, and the convolution's)
#: takes as much as 783 tokens of one attention layer, which vLLM rounds up to blocks of 784; the
#: 48 are three groups of 16; and 4,270 blocks are 55 GB on each of the four GPUs.
QWEN36_27B_TOKEN_BYTES = 16 * 2 * 4 * 256 * 2

_MOST_BLOCKS = 100_000_000
_MOST = 1_000_000.0


def block_megabytes(block_tokens: int = 784, token_bytes: int = QWEN36_27B_TOKEN_BYTES) -> float:
    """A block of all layers of a group, over all GPUs; of Qwen3.6-27B unless told."""
    return block_tokens * token_bytes / 1e6


class HostMemory:
    """Which sessions are in host memory, and how long copies take.

    Args:
        choice: Size and speed.
        engine: Its pool, and which snapshots of states it keeps.

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    def __init__(self, choice: OffloadChoice, engine: EngineSettings) -> None:
        _check("host blocks", choice.host_blocks, 0, _MOST_BLOCKS)
        _check("gigabytes per second", choice.gigabytes_per_s, 1e-3, _MOST)
        _check("megabytes of a block", choice.block_megabytes, 1e-3, _MOST)
        self._room_blocks = choice.host_blocks
        self._block_s = choice.block_megabytes / 1e3 / choice.gigabytes_per_s
        self._pool = engine.pool
        self._keeps_every_state = engine.snapshot_interval_tokens is None
        self._sessions: OrderedDict[SessionBlocks, int] = OrderedDict()
        self._used_blocks = 0
        self._link_free_s = 0.0
        # Of turns inside: where what they load ends.
        self._loads_to: dict[str, int] = {}

    @property
    def num_sessions(self) -> int:
        """Sessions that are in host memory."""
        return len(self._sessions)

    def loaded_tokens(self, turn: Turn) -> int:
        """Leading tokens of a turn that came out of host memory; 0: none did."""
        return self._loads_to.get(turn.name, 0)

    def start(self, turn: Turn, cached_tokens: int) -> None:
        """A turn begins with so many tokens found in the pool."""
        held = self._sessions.get(turn.blocks)
        if held is None:
            return
        self._sessions.move_to_end(turn.blocks)
        reusable = full_prefix_boundary(turn.num_prompt_tokens, self._pool.block_tokens)
        if min(held, reusable) > cached_tokens:
            self._loads_to[turn.name] = min(held, reusable)

    def split(self, scheduled: tuple[ScheduledTokens, ...]) -> tuple[list[ScheduledTokens], int]:
        """What a step computes, and how many blocks it loads instead of computing them."""
        computed = []
        num_blocks = 0
        block_tokens = self._pool.block_tokens
        for piece in scheduled:
            loads_to = self._loads_to.get(piece.name, 0) if piece.is_prefill else 0
            if piece.start >= loads_to:
                computed.append(piece)
                continue
            end = min(piece.end, loads_to)
            num_blocks += math.ceil(end / block_tokens) - piece.start // block_tokens
            if end == loads_to:
                num_blocks += self._pool.num_state_groups
            if end < piece.end:
                computed.append(replace(piece, start=end))
        return computed, num_blocks

    def copy_s(self, num_blocks: int, now_s: float) -> float:
        """How long from now until so many blocks are copied, behind what the link has to do."""
        self._link_free_s = max(self._link_free_s, now_s) + num_blocks * self._block_s
        return self._link_free_s - now_s

    def end(self, turn: Turn, now_s: float) -> None:
        """A turn has ended: what it computed is being copied to host memory."""
        self._loads_to.pop(turn.name, None)
        num_tokens = turn.num_prompt_tokens
        if self._keeps_every_state:
            num_tokens += turn.num_output_tokens
        # Otherwise the only state that can be gone on from is at the prompt's last whole block.
        kept_tokens = full_prefix_boundary(num_tokens, self._pool.block_tokens)
        before = self._sessions.pop(turn.blocks, 0)
        # A refresh may end behind a turn that went further.
        kept_tokens = max(kept_tokens, before)
        self._used_blocks -= self._blocks(before)
        if not kept_tokens or self._blocks(kept_tokens) > self._room_blocks:
            return
        while self._used_blocks + self._blocks(kept_tokens) > self._room_blocks:
            _, tokens = self._sessions.popitem(last=False)
            self._used_blocks -= self._blocks(tokens)
        self._sessions[turn.blocks] = kept_tokens
        self._used_blocks += self._blocks(kept_tokens)
        if kept_tokens > before:
            new_blocks = (kept_tokens - before) // self._pool.block_tokens
            self.copy_s(new_blocks + self._pool.num_state_groups, now_s)

    def _blocks(self, num_tokens: int) -> int:
        if not num_tokens:
            return 0
        return num_tokens // self._pool.block_tokens + self._pool.num_state_groups


def _check(name: str, value: float, least: float, most: float) -> None:
    if not math.isfinite(value) or not least <= value <= most:
        raise InvalidArgumentError(
            "out of range", field=name, value=value, allowed=(f"{least:g} to {most:g}",)
        )
