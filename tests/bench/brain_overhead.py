"""What our path costs over calling vLLM directly, at 100k tokens of history.

    python tests/bench/brain_overhead.py [--quick] [--json FILE]

One side is a robot, `python -m server` and its vLLM process; the other calls AsyncLLM with whole
prompts in a process of its own. Both run vLLM's real engine process over an executor without a
model, so that nothing but handling is measured: CPU seconds of a turn outside vLLM's engine
process, and the bytes that the robot sends and gets. AsyncLLM keeps its figures of requests on both
sides, as it does by default. Results are ratios; nothing is asserted.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _support_process import Child, own_cpu_s, process_tree
from _support_script import run_script
from _support_stats import machine_line
from _support_vllm import ENGINE, ENVIRONMENT, EXECUTOR

HISTORY_TOKENS = 100_000
#: Medians of the study: tokens that a turn adds, and tokens of an answer.
NEW_TOKENS = 3279
OUTPUT_TOKENS = 144
#: Turns of the episode whose bytes are told one by one.
GROWING_TURNS = 60
_LOAD_S = 400.0
_TURN_S = 120.0
_WORKER_MODULE = "server.brain.vllm_engine.worker_main"


class Served:
    """Our side: the server's two processes, and a robot in this one."""

    def __init__(self, model: Path) -> None:
        settings = {"model": str(model), "tool_calls": "off", "max_output_tokens": OUTPUT_TOKENS}
        lines = [f"{name} = {json.dumps(value)}" for name, value in {**settings, **ENGINE}.items()]
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write(
                '[server]\nport = 0\nlog_level = "warning"\nload_timeout_s = 600\n'
                '[brain]\nengine = "vllm"\n[policies]\n[vllm]\n'
                + "\n".join(lines)
                + f'\n[vllm.engine_args]\ndistributed_executor_backend = "{EXECUTOR}"\n'
            )
            config.flush()
            self._child = Child(
                [sys.executable, "-m", "server", "--config", config.name], ENVIRONMENT
            )
            while not (line := self._child.read_line(_LOAD_S)).startswith("listening on "):
                pass
        self._address = line.rpartition(" ")[2]
        self._worker = next(
            pid
            for pid in process_tree(self._child.pid)
            if _WORKER_MODULE in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        )

    def episode(
        self, first_tokens: int, new_tokens: int, turns: int, seed: int
    ) -> list[dict[str, float]]:
        """One episode; the figures of each turn behind the first."""
        from tests.integration.server.harness import Client, Robot, user

        client = Client(self._address)
        robot = Robot(client, policies=[])
        robot.admitted()
        robot.keep_alive(1.0)
        draw = random.Random(seed)

        def words(count: int) -> str:
            # Letters without a pair that the tiny tokenizer has as one token: one token each.
            return "".join(draw.choice("JKQVWXYZ") for _ in range(count))

        figures = []
        for turn_index in range(turns + 1):
            message = user(words(new_tokens if turn_index else first_tokens))
            before = [own_cpu_s(pid) for pid in (self._child.pid, self._worker)]
            inbox = robot.decide(turn_index, [message], timeout_s=_TURN_S)
            done = inbox.until("done", _TURN_S)
            after = [own_cpu_s(pid) for pid in (self._child.pid, self._worker)]
            figures.append(
                {
                    "front_end_cpu_s": after[0] - before[0],
                    "worker_cpu_s": after[1] - before[1],
                    "bytes_sent": message.ByteSize(),
                    "bytes_received": sum(answer.ByteSize() for answer in inbox.seen),
                    "input_tokens": done.usage.input_tokens,
                    "cached_tokens": done.usage.cached_tokens,
                }
            )
        robot.end()
        client.close()
        return figures[1:]

    def close(self) -> None:
        self._child.close()


def direct(model: Path, turns: int, rounds: int) -> dict[str, float]:
    """CPU seconds of a turn of the bare side, with token ids and with text."""
    arguments = {
        "model": str(model),
        "distributed_executor_backend": EXECUTOR,
        **ENGINE,
    }
    script = str(Path(__file__).with_name("_support_direct_vllm.py"))
    child = Child([sys.executable, script, json.dumps(arguments)], ENVIRONMENT)
    try:
        child.answer(_LOAD_S)
        spent: dict[str, list[float]] = {"token_ids": [], "text": []}
        for seed in range(rounds):
            for form, values in spent.items():
                command = {
                    "history_tokens": HISTORY_TOKENS,
                    "new_tokens": NEW_TOKENS,
                    "output_tokens": OUTPUT_TOKENS,
                    "turns": turns,
                    "seed": 2 * seed + (form == "text"),
                    "as_text": form == "text",
                }
                values.append(child.ask(command, turns * _TURN_S)["cpu_s"] / turns)
    finally:
        child.close()
    return {form: float(np.median(values)) for form, values in spent.items()}


def measure(quick: bool) -> dict[str, Any]:
    from server.brain.tiny_model import write_tiny_text_model

    turns, rounds = (4, 1) if quick else (10, 3)
    with tempfile.TemporaryDirectory() as folder:
        model = write_tiny_text_model(
            Path(folder) / "model", max_context_tokens=ENGINE["max_model_len"]
        )
        bare = direct(model, turns, rounds)
        served = Served(model)
        try:
            at_history = [
                served.episode(HISTORY_TOKENS, NEW_TOKENS, turns, seed) for seed in range(rounds)
            ]
            growth = (HISTORY_TOKENS - NEW_TOKENS) // GROWING_TURNS - OUTPUT_TOKENS
            growing = served.episode(NEW_TOKENS, growth, GROWING_TURNS, seed=100)
        finally:
            served.close()

    def median(name: str) -> float:
        return float(np.median([sum(t[name] for t in episode) / turns for episode in at_history]))

    ours_s = median("front_end_cpu_s") + median("worker_cpu_s")
    last = at_history[0][0]
    sent = [turn["bytes_sent"] for turn in growing]
    return {
        "machine": machine_line(),
        "history_tokens": HISTORY_TOKENS,
        "new_tokens": NEW_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "turns": turns,
        "rounds": rounds,
        "cpu_s_per_turn": {
            "front_end": median("front_end_cpu_s"),
            "worker": median("worker_cpu_s"),
            "direct_token_ids": bare["token_ids"],
            "direct_text": bare["text"],
        },
        "cpu_ratio_to_direct_token_ids": ours_s / bare["token_ids"],
        "cpu_ratio_to_direct_text": ours_s / bare["text"],
        "bytes_per_turn": {"sent": median("bytes_sent"), "received": median("bytes_received")},
        # One byte is one token here, so the conversation as text has as many bytes as tokens.
        "bytes_sent_ratio_to_whole_conversation": last["bytes_sent"] / last["input_tokens"],
        "bytes_sent_by_turn": sent,
        "bytes_sent_last_to_first": sent[-1] / sent[0],
        "input_tokens_by_turn": [turn["input_tokens"] for turn in growing],
    }


def report(result: dict[str, Any]) -> None:
    cpu = result["cpu_s_per_turn"]
    print(f"  {result['machine']}")
    print(
        f"  a turn at {result['history_tokens']} tokens of history: {result['new_tokens']} new, "
        f"{result['output_tokens']} out; median of {result['rounds']} x {result['turns']} turns"
    )
    rows = [
        ("front end", cpu["front_end"]),
        ("vLLM worker of the server", cpu["worker"]),
        ("AsyncLLM called with token ids", cpu["direct_token_ids"]),
        ("AsyncLLM called with the whole text", cpu["direct_text"]),
    ]
    for name, value_s in rows:
        print(f"    {name:<38}{1e3 * value_s:8.1f} ms CPU")
    print(f"  CPU of ours / token ids: {result['cpu_ratio_to_direct_token_ids']:.2f}")
    print(f"  CPU of ours / whole text: {result['cpu_ratio_to_direct_text']:.2f}")
    sizes = result["bytes_per_turn"]
    print(f"  bytes: {sizes['sent']:.0f} sent, {sizes['received']:.0f} received")
    share = result["bytes_sent_ratio_to_whole_conversation"]
    print(f"  sent / whole conversation as text: {share:.3f}")
    tokens = result["input_tokens_by_turn"]
    print(
        f"  {len(tokens)} turns, {tokens[0]} to {tokens[-1]} tokens: bytes sent in the last / "
        f"first: {result['bytes_sent_last_to_first']:.2f}"
    )


if __name__ == "__main__":
    run_script(__doc__, "fewer turns", measure, report)
