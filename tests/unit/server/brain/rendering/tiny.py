"""The tiny model's tokenizer and template without transformers, and short ways to make messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="needs the extra [vllm]")
tokenizers = pytest.importorskip("tokenizers", reason="needs the extra [vllm]")

from server.brain.interface import ImagePart, Message, TextPart, Tool  # noqa: E402
from server.brain.rendering.chat_renderer import ChatRenderer  # noqa: E402
from server.brain.tiny_model import (  # noqa: E402
    IMAGE_TOKEN,
    TOKENS_PER_IMAGE,
    write_tiny_text_model,
)

LOOK = Tool(
    "look",
    "Take a picture.",
    '{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}',
)
SYSTEM = Message("system", (TextPart("You control a robot."),))


@dataclass
class TinyTokenizer:
    """What rendering uses of a Hugging Face tokenizer. Counts what it was given to encode."""

    fast: Any
    num_chars: int = 0

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        self.num_chars += len(text)
        return list(self.fast.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self.fast.decode(list(token_ids), skip_special_tokens=False))

    def get_added_vocab(self) -> dict[str, int]:
        return {token.content: i for i, token in self.fast.get_added_tokens_decoder().items()}


@cache
def _files() -> tuple[str, str]:
    with TemporaryDirectory() as folder:
        path = write_tiny_text_model(Path(folder))
        template = (path / "chat_template.jinja").read_text(encoding="utf-8")
        return (path / "tokenizer.json").read_text(encoding="utf-8"), template


def tokenizer() -> TinyTokenizer:
    return TinyTokenizer(tokenizers.Tokenizer.from_str(_files()[0]))


def template() -> str:
    return _files()[1]


def renderer(own: TinyTokenizer | None = None, **variables: Any) -> ChatRenderer:
    """With pictures of TOKENS_PER_IMAGE tokens."""
    return ChatRenderer(
        own or tokenizer(),
        template(),
        image_token=IMAGE_TOKEN,
        image_tokens=lambda _height, _width: TOKENS_PER_IMAGE,
        variables=variables,
    )


def user(text: str, *images: ImagePart) -> Message:
    return Message("user", (TextPart(text), *images))


def result(text: str, *images: ImagePart, call_id: str = "c00000000", **more: Any) -> Message:
    return Message("tool", (TextPart(text), *images), call_id, "look", **more)


def picture(name: str, height: int = 48, width: int = 64) -> ImagePart:
    return ImagePart(name, height, width)


def call_text(**arguments: Any) -> str:
    body = json.dumps({"name": "look", "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"
