"""What touching a prefix costs beside a turn of the same conversation.

    python tests/bench/prefix_refresh.py [--quick] [--json FILE]

The server's engine object is in this process, its worker with AsyncLLM and vLLM's engine process
below it are real, and an executor without a model computes nothing. So this is what handling costs;
on a GPU a refresh adds about one decode step. Times on the wall, and CPU seconds of this process
and of the worker, at several lengths of the conversation. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _support_process import CHECKOUT, own_cpu_s
from _support_script import run_script
from _support_stats import machine_line
from _support_vllm import ENGINE, ENVIRONMENT, EXECUTOR

CONTEXTS_TOKENS = (20_000, 100_000)
#: Medians of the study: tokens that a turn adds, and tokens of an answer.
NEW_TOKENS = 3279
OUTPUT_TOKENS = 144
_LOAD_S = 400.0


class Conversation:
    """One episode at an engine; every letter of it is a token."""

    def __init__(self, engine: Any, seed: int) -> None:
        self._engine = engine
        self._name = f"episode-{seed}"
        self._draw = random.Random(seed)
        self._num_turns = 0

    async def take_turn(self, new_tokens: int) -> int:
        """Tokens of the conversation after it."""
        from robot_sdk.messages import Sampling
        from server.brain.interface import Finished, Message, TextPart, Turn

        # Letters without a pair that the tiny tokenizer has as one token.
        text = "".join(self._draw.choice("JKQVWXYZ") for _ in range(new_tokens))
        message = Message("user", (TextPart(text),))
        sampling = Sampling(max_output_tokens=OUTPUT_TOKENS)
        turn = Turn(self._name, self._num_turns, (message,), (), sampling, num_new_messages=1)
        num_tokens = 0
        async for event in self._engine.decide(turn):
            if isinstance(event, Finished) and event.usage is not None:
                num_tokens = event.usage.input_tokens + event.usage.output_tokens
        self._engine.commit(self._name, self._num_turns)
        self._num_turns += 1
        return num_tokens

    async def refresh(self) -> None:
        if await self._engine.refresh(self._name) is not True:
            raise RuntimeError("a prefix is not in a pool that has room for it")

    def end(self) -> None:
        self._engine.end_episode(self._name)


async def _cost(
    work: Callable[[], Awaitable[object]], times: int, worker_pid: int
) -> dict[str, float]:
    """Means over so many in a row; CPU of the worker is read in steps of 10 ms."""
    wall_s = []
    before = [own_cpu_s(pid) for pid in (os.getpid(), worker_pid)]
    for _ in range(times):
        started_s = time.perf_counter()
        await work()
        wall_s.append(time.perf_counter() - started_s)
    after = [own_cpu_s(pid) for pid in (os.getpid(), worker_pid)]
    return {
        "wall_s_p50": float(np.median(wall_s)),
        "front_end_cpu_s": (after[0] - before[0]) / times,
        "worker_cpu_s": (after[1] - before[1]) / times,
    }


async def _measure(model: Path, times: int) -> list[dict[str, Any]]:
    from robot_sdk.clock import SYSTEM_CLOCK
    from server.brain.build import build_brain
    from server.config import from_tree

    section = {
        "model": str(model),
        "tool_calls": "off",
        "max_output_tokens": OUTPUT_TOKENS,
        **ENGINE,
        "engine_args": {"distributed_executor_backend": EXECUTOR},
    }
    engine: Any = build_brain(
        from_tree({"brain": {"engine": "vllm"}, "vllm": section}), SYSTEM_CLOCK
    )
    results = []
    await engine.start()
    try:
        await asyncio.wait_for(engine.loaded(), _LOAD_S)
        for context_tokens in CONTEXTS_TOKENS:
            talk = Conversation(engine, context_tokens)
            await talk.take_turn(context_tokens)
            refresh = await _cost(talk.refresh, times, engine.worker_pid)
            add = partial(talk.take_turn, NEW_TOKENS)
            # Few, because each makes the conversation longer.
            turn = await _cost(add, times // 4, engine.worker_pid)
            talk.end()
            results.append({"context_tokens": context_tokens, "refresh": refresh, "turn": turn})
    finally:
        await engine.stop()
    return results


def measure(quick: bool) -> dict[str, Any]:
    from server.brain.tiny_model import write_tiny_text_model

    times = 8 if quick else 24
    os.environ.update(ENVIRONMENT)
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    with tempfile.TemporaryDirectory() as folder:
        model = write_tiny_text_model(
            Path(folder) / "model", max_context_tokens=ENGINE["max_model_len"]
        )
        results = asyncio.run(_measure(model, times))
    return {
        "machine": machine_line(),
        "new_tokens": NEW_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "times": times,
        "by_context": results,
    }


def report(result: dict[str, Any]) -> None:
    print(f"  {result['machine']}")
    print(
        f"  a refresh beside a turn with {result['new_tokens']} new and "
        f"{result['output_tokens']} output tokens; {result['times']} refreshes, then "
        f"{result['times'] // 4} turns"
    )
    for row in result["by_context"]:
        print(f"  conversation of {row['context_tokens']} tokens:")
        for what in ("refresh", "turn"):
            cost = row[what]
            print(
                f"    {what:<8}{1e3 * cost['wall_s_p50']:8.1f} ms p50, CPU "
                f"{1e3 * cost['front_end_cpu_s']:.1f} ms in the front end, "
                f"{1e3 * cost['worker_cpu_s']:.1f} ms in the worker"
            )


if __name__ == "__main__":
    run_script(__doc__, "fewer of each", measure, report)
