"""Servers that host a tiny random model with vLLM, and robots that talk to it."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robot_sdk.api.v1 import brain_pb2, common_pb2, fleet_pb2
from robot_sdk.clock import SYSTEM_CLOCK
from server.core.residency import is_full_prefix_hit
from tests.integration.server.harness import Client, Inbox, Robot, Server, tool_result, wait_until

#: vLLM on a CPU that others use too.
LOAD_PATIENCE_S = 300.0
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
#: Tokens of a block; what the CPU's attention takes.
BLOCK_TOKENS = 32
LOOK = brain_pb2.ToolSpec(
    name="look",
    description="look at something",
    parameters_json=json.dumps(
        {
            "type": "object",
            "properties": {"camera": {"type": "string", "enum": ["left", "right"]}},
            "required": ["camera"],
            "additionalProperties": False,
        }
    ),
)


def toml(model: Path, more: str = "", *, lease_ttl_s: float = 30.0, **settings: Any) -> str:
    """A configuration for one tiny model. `settings` of [vllm] replace the usual ones."""
    values = {
        "model": str(model),
        "load_format": "dummy",
        "enforce_eager": True,
        "block_size": BLOCK_TOKENS,
        "num_gpu_blocks_override": 1024,
        "max_model_len": 16384,
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 8,
        **settings,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(
        [
            '[brain]\nengine = "vllm"\n[policies]\n[vllm]',
            *lines,
            f"[episodes]\nlease_ttl_s = {lease_ttl_s}",
            f"heartbeat_interval_s = {lease_ttl_s / 4}",
            f"[server]\nport = 0\nload_timeout_s = {LOAD_PATIENCE_S}",
            more,
        ]
    )


@contextmanager
def serving(folder: Path, configuration: str) -> Iterator[Server]:
    """A server whose model is loaded."""
    server = Server(folder, configuration, wait=False, environment=ENVIRONMENT)
    ready = folder / "ready.json"
    try:
        wait_until(lambda: ready.exists() or server.process.poll() is not None, LOAD_PATIENCE_S)
        assert server.process.poll() is None, server.log
        server.ready = json.loads(ready.read_text())
        yield server
    finally:
        server.close()


class ReturnedRobot(Robot):
    """A robot that takes up an episode which another process had, by its reference."""

    def __init__(self, client: Client, reference: common_pb2.EpisodeRef) -> None:
        self.client = client
        self.reference = reference
        self._heartbeats = itertools.count(1)
        self._beating = threading.Event()
        self.resume()
        self.admitted()


def admitted(client: Client, **fields: Any) -> Robot:
    """A robot inside, with heartbeats."""
    robot = Robot(client, policies=[], **fields)
    robot.admitted()
    robot.keep_alive(0.2)
    return robot


def done_of(inbox: Inbox, timeout_s: float = 60.0) -> brain_pb2.DecideDone:
    return inbox.until("done", timeout_s)


def calls_of(inbox: Inbox) -> list[brain_pb2.ToolCall]:
    """Tool calls that have been read from a turn."""
    return [m.tool_call for m in inbox.seen if m.WhichOneof("message") == "tool_call"]


def results_of(inbox: Inbox, text: str = "it is where it was") -> list[brain_pb2.Message]:
    """The answers to a turn's tool calls."""
    return [tool_result(call.tool_call_id, call.name, text) for call in calls_of(inbox)]


def brain_of(client: Client) -> fleet_pb2.BrainStatus:
    return client.status().brain


def counters(client: Client) -> tuple[int, int, int]:
    """Prompt, cached and generated tokens, as the engine counts them."""
    load = brain_of(client).load
    return load.prompt_tokens_total, load.cached_tokens_total, load.generated_tokens_total


def running_turns(client: Client) -> int:
    return brain_of(client).running_turns


def now_s() -> float:
    return SYSTEM_CLOCK.now_s()


def keeps_prefix(usage: brain_pb2.TokenUsage) -> bool:
    """Whether every whole block that was there before the turn was found again."""
    return is_full_prefix_hit(
        cached_tokens=usage.cached_tokens,
        expected_prefix_tokens=usage.input_tokens - usage.new_tokens,
        block_tokens=BLOCK_TOKENS,
    )


def totals(usages: Sequence[brain_pb2.TokenUsage]) -> tuple[int, int, int]:
    """What the turns said they used, to be compared with `counters`."""
    return (
        sum(usage.input_tokens for usage in usages),
        sum(usage.cached_tokens for usage in usages),
        sum(usage.output_tokens for usage in usages),
    )
