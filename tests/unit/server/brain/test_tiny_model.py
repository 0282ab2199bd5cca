"""The tiny models are what they say, and the same every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.brain.tiny_model import (
    END_TOKEN,
    IMAGE_TOKEN,
    TOKENS_PER_IMAGE,
    write_tiny_text_model,
    write_tiny_vl_model,
)

pytest.importorskip("tokenizers", reason="needs the extra [vllm]")


@pytest.mark.parametrize("write", [write_tiny_text_model, write_tiny_vl_model])
def test_two_folders_are_equal_file_by_file(tmp_path: Path, write: Any) -> None:
    one, other = write(tmp_path / "one"), write(tmp_path / "deep/other")

    names = sorted(file.name for file in one.iterdir())
    assert names == sorted(file.name for file in other.iterdir())
    assert all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_every_byte_can_be_written_and_words_take_fewer_tokens_than_bytes(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(write_tiny_text_model(tmp_path) / "tokenizer.json"))

    text = "the gripper é 拿 \x00\x7f"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert len(tokenizer.encode("open the gripper").ids) < 8
    assert len(tokenizer.encode(END_TOKEN).ids) == 1


def test_the_vocabulary_of_the_model_is_that_of_the_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    folder = write_tiny_vl_model(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    assert config["text_config"]["vocab_size"] == tokenizer.get_vocab_size()
    assert config["image_token_id"] == tokenizer.token_to_id(IMAGE_TOKEN)
    assert config["eos_token_id"] == tokenizer.token_to_id(END_TOKEN)


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", [(48, 64), (30, 150), (150, 30), (500, 400)])
def test_a_picture_of_any_size_is_as_many_tokens_as_it_says(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    pytest.importorskip("transformers", reason="needs the extra [vllm]")
    from server.brain.rendering.load import RendererOptions, load_renderer
    from tests.unit.server.brain.rendering.tiny import picture, user

    renderer = load_renderer(str(write_tiny_vl_model(tmp_path)), RendererOptions())

    opening = renderer.opening([user("go", picture("a", *size))], [])

    assert [image.num_tokens for image in opening.images] == [TOKENS_PER_IMAGE]
    assert renderer.forbidden_output_ids == {renderer.image_token_id}
