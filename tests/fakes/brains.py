"""Planners for fault tests, loaded by the server under test as `factory`."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import OverloadedError
from server.brain.interface import (
    EngineInfo,
    Event,
    Finished,
    Reasoning,
    Text,
    TokenUsage,
    ToolCall,
    Turn,
)
from tests.fakes.lru_pool import LruPool


def _sleep(duration_s: float) -> None:
    SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + duration_s)


class EchoBrain:
    """Thinks, says the newest text, calls tool `echo`. The text `slow` makes it block deafly."""

    info = EngineInfo(engine="echo", model="echo-1", max_context_tokens=1000)

    def __init__(self, slow_s: float = 3.0) -> None:
        self._slow_s = slow_s

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        text = turn.messages[-1].text
        if text == "slow":
            _sleep(self._slow_s)  # a call into a model that cannot be interrupted
        if text == "die":
            os._exit(9)
        if text == "raise":
            raise RuntimeError("secret detail")
        if text == "busy":
            raise OverloadedError("the engine is full", retry_after_s=2.5)
        yield Reasoning("hm")
        yield Text(text)
        yield ToolCall(f"call-{turn.turn_index}", "echo", f'{{"n": {len(turn.messages)}}}')
        if text == "twice":
            yield ToolCall(f"call-{turn.turn_index}", "echo", "{}")
        if text == "cut":
            yield Finished("length")


class ChattyBrain:
    """Writes `num` deltas of `size` bytes as fast as it can."""

    info = EngineInfo(engine="chatty", model="chatty-1")

    def __init__(self, num: int = 20_000, size: int = 100) -> None:
        self._num = num
        self._size = size

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        for _ in range(self._num):
            yield Text("x" * self._size)


class SloppyBrain:
    """Makes a mistake that the newest text names, else repeats that text."""

    info = EngineInfo(engine="sloppy", model="sloppy-1")

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        text = turn.messages[-1].text
        if text == "exit":
            sys.exit(3)
        if text == "arguments":
            yield ToolCall("1", "drive", {"steps": 3})  # type: ignore[arg-type]
            yield Finished("stop", TokenUsage(input_tokens=1))
        if text == "text":
            yield Text(5)  # type: ignore[arg-type]
        if text == "calls":
            yield from (ToolCall(str(number), "drive", "{}") for number in range(10_000))
            yield Finished("stop", TokenUsage(input_tokens=1))
        if text == "endless":
            for number in itertools.count():
                yield ToolCall(str(number), "drive", "x" * 10_000)
        yield Text(text)


class CountingBrain:
    """Counts tokens in front of a pool: a turn adds as many as its newest text says, and 8 more."""

    def __init__(self, pool_blocks: int = 1000, block_tokens: int = 16) -> None:
        self.info = EngineInfo(
            engine="counting",
            model="counting-1",
            max_context_tokens=50_000,
            reports_cached_tokens=True,
            pool_blocks=pool_blocks,
            block_tokens=block_tokens,
        )
        self._pool = LruPool(pool_blocks, block_tokens)
        self._lock = threading.Lock()

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        with self._lock:
            usage = self._pool.turn(turn.episode_id, int(turn.messages[-1].text), 8)
        yield Text("counted")
        yield Finished(usage=usage)
