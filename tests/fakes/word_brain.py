"""A brain whose tokens are words, with a pool that keeps or loses prefixes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import takewhile

from robot_sdk.clock import SYSTEM_CLOCK
from server.brain.interface import EngineInfo, Event, Finished, Text, ToolCall, Turn
from tests.fakes.lru_pool import LruPool

#: What stands around the words of every turn, as a chat format would write it.
OVERHEAD_TOKENS = 5


class WordBrain:
    """Two tokens a word and OVERHEAD_TOKENS a turn; answers are as long as they may be.

    Args:
        turn_s: How long a turn takes.
        calls_tools: Every answer calls a tool.
    """

    def __init__(
        self,
        pool_blocks: int = 1000,
        block_tokens: int = 16,
        turn_s: float = 0.0,
        calls_tools: bool = False,
    ) -> None:
        self.info = EngineInfo(
            engine="word",
            model="word-1",
            max_context_tokens=50_000,
            reports_cached_tokens=True,
            pool_blocks=pool_blocks,
            block_tokens=block_tokens,
        )
        self._pool = LruPool(pool_blocks, block_tokens)
        self._lock = threading.Lock()
        self._turn_s = turn_s
        self._calls_tools = calls_tools

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        news = takewhile(lambda message: message.role != "assistant", reversed(turn.messages))
        num_words = sum(len(message.text.split()) for message in news)
        num_output = turn.sampling.max_output_tokens or 1
        end_s = SYSTEM_CLOCK.now_s() + self._turn_s
        while SYSTEM_CLOCK.now_s() < end_s and not is_cancelled():
            SYSTEM_CLOCK.sleep_until(min(SYSTEM_CLOCK.now_s() + 0.01, end_s))
        with self._lock:
            usage = self._pool.turn(turn.episode_id, 2 * num_words + OVERHEAD_TOKENS, num_output)
        yield Text("so it is")
        if self._calls_tools:
            yield ToolCall(f"call-{turn.turn_index}", "look", "{}")
        yield Finished(usage=usage)
