"""The bare side: AsyncLLM in a process of its own, called with whole prompts, turn after turn.

    _support_direct_vllm.py ENGINE_ARGUMENTS_AS_JSON

Reads one JSON command a line and answers each with the CPU seconds that its turns took.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from typing import Any


async def run(engine: Any, command: dict[str, Any]) -> dict[str, Any]:
    """One episode: a first prompt, then turns that each append new tokens and the answer."""
    from vllm.inputs import TextPrompt, TokensPrompt
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    draw = random.Random(command["seed"])
    params = SamplingParams(
        max_tokens=command["output_tokens"],
        output_kind=RequestOutputKind.DELTA,
        skip_special_tokens=False,
    )
    tokenizer = engine.get_tokenizer()

    def fresh(count: int) -> list[int]:
        return [draw.randrange(40, 90) for _ in range(count)]

    async def turn(history: list[int], name: str) -> list[int]:
        prompt: Any = TokensPrompt(prompt_token_ids=history)
        if command["as_text"]:
            prompt = TextPrompt(prompt=text(history))
        answer: list[int] = []
        async for output in engine.generate(prompt, params, name):
            answer.extend(output.outputs[0].token_ids)
        return answer

    texts: dict[int, str] = {}

    def text(history: list[int]) -> str:
        # Made outside the measured time: who calls with text has it already.
        return texts[len(history)]

    async def episode(measured: bool) -> float:
        history = fresh(command["history_tokens"])
        texts[len(history)] = tokenizer.decode(history)
        history += await turn(history, f"{command['seed']}-first")
        spent_s = 0.0
        for index in range(command["turns"]):
            history += fresh(command["new_tokens"])
            texts.clear()
            texts[len(history)] = tokenizer.decode(history)
            started_s = time.process_time()
            answer = await turn(history, f"{command['seed']}-{index}")
            spent_s += time.process_time() - started_s
            history += answer
        return spent_s if measured else 0.0

    return {"cpu_s": await episode(measured=True)}


async def main() -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    # The end of the input is what ends this process: it has to take vLLM's other one with it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**json.loads(sys.argv[1])))
    print(json.dumps({"state": "ready"}), file=answers)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await run(engine, json.loads(line))), file=answers)
    engine.shutdown(1.0)
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
