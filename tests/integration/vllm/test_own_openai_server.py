"""vLLM's own OpenAI server behind the OpenAI engine, with a tiny model of random weights."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from robot_sdk import client as sdk
from robot_sdk.errors import ContextLimitError
from robot_sdk.messages import ImagePart, Message, Sampling, TextPart, ToolSpec
from server.brain.tiny_model import write_tiny_vl_model
from tests.integration.server.harness import Server, wait_until

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

#: Seconds; some 35 on an idle machine.
START_S = 540.0
BLOCK_TOKENS = 32
MAX_CONTEXT_TOKENS = 2048
TURNS = 6
LOOK = ToolSpec(
    "look",
    "Take a picture.",
    {
        "type": "object",
        "properties": {"camera": {"type": "string", "enum": ["front", "wrist"]}},
        "required": ["camera"],
        "additionalProperties": False,
    },
)
#: White space as the tokenizer writes it. A model of random weights would go on with it for ever
#: wherever the grammar of a call allows some.
WHITE = re.compile("[ĠĊĉč]+")


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_vl_model(
        tmp_path_factory.mktemp("model"), max_context_tokens=MAX_CONTEXT_TOKENS
    )


@pytest.fixture(scope="module")
def base_url(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log_path = tmp_path_factory.mktemp("vllm") / "vllm.log"
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model_folder), "--served-model-name", "tiny", "--load-format", "dummy"),
        *("--dtype", "float32", "--block-size", str(BLOCK_TOKENS), "--enforce-eager"),
        *("--max-num-seqs", "4", "--host", "127.0.0.1", "--port", str(port)),
        *("--enable-prompt-tokens-details", "--enable-auto-tool-choice"),
        *("--tool-call-parser", "hermes"),
    ]
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/v1"

    def answers() -> bool:
        assert process.poll() is None, log_path.read_text()
        try:
            return urllib.request.urlopen(f"{url}/models", timeout=5).status == 200
        except urllib.error.URLError:
            return False

    try:
        wait_until(answers, START_S)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_an_episode_with_calls_and_pictures_keeps_its_prefix_at_the_endpoint(
    base_url: str, model_folder: Path, tmp_path: Path
) -> None:
    vocabulary = json.loads((model_folder / "tokenizer.json").read_text())["model"]["vocab"]
    white = {str(number): -100.0 for word, number in vocabulary.items() if WHITE.fullmatch(word)}
    toml = f"""
[brain]
engine = "openai"
[openai]
base_url = "{base_url}"
model = "tiny"
strict_tools = true
image_format = "png"
tool_images = "tool"
[openai.extra_body]
tool_choice = {{type = "function", function = {{name = "look"}}}}
logit_bias = {{{", ".join(f'"{number}" = {bias}' for number, bias in white.items())}}}
[policies]
"""
    sampling = Sampling(temperature=0.0, max_output_tokens=100)
    generator = np.random.default_rng(0)
    new = [Message.of_text("system", "Be brief. " * 40), Message.of_text("user", "Go: é 拿")]
    turns = []
    server = Server(tmp_path, toml)
    with closing(server), sdk.connect(server.address) as client:
        assert client.server_info.brain.max_context_tokens == MAX_CONTEXT_TOKENS
        with client.episode(task="go", robot_id="r") as episode:
            for index in range(TURNS):
                turn = episode.decide(new, (LOOK,) if index == 0 else (), sampling=sampling)
                turns.append(turn)
                picture = ImagePart(generator.integers(0, 256, (40, 60, 3), np.uint8))
                new = [
                    Message("tool", (TextPart(f"picture {index}"), picture), call.id, call.name)
                    for call in turn.tool_calls
                ]

            with pytest.raises(ContextLimitError):
                episode.decide([*new, Message.of_text("user", "word " * 3 * MAX_CONTEXT_TOKENS)])

    for turn in turns:
        assert turn.finish_reason == "stop"
        (call,) = turn.tool_calls
        assert call.name == "look"
        assert json.loads(call.arguments_json)["camera"] in ("front", "wrist")
    assert turns[0].usage.cached_tokens == 0
    for last, turn in zip(turns, turns[1:]):
        usage = turn.usage
        assert usage.input_tokens > last.usage.input_tokens
        # All of the last prompt but its unfinished block was still there.
        reusable = last.usage.input_tokens // BLOCK_TOKENS * BLOCK_TOKENS
        assert usage.cached_tokens >= reusable - BLOCK_TOKENS
        assert usage.cached_tokens + usage.computed_tokens == usage.input_tokens
        assert not usage.estimated
    assert [turn.usage.num_images for turn in turns] == list(range(TURNS))
