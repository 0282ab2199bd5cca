"""A renderer from a model's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra [vllm]")

from robot_sdk.errors import InvalidArgumentError
from server.brain.rendering.load import RendererOptions, load_renderer
from server.brain.tiny_model import (
    write_tiny_text_model,
    write_tiny_vl_model,
)
from tests.unit.server.brain.rendering.tiny import picture, template, user

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_text_model_is_loaded_without_pictures(tmp_path: Path) -> None:
    renderer = load_renderer(str(write_tiny_text_model(tmp_path)), RendererOptions())

    assert renderer.image_token_id is None
    assert not renderer.takes_images


def test_a_fixed_number_of_tokens_per_picture_overrules_the_processor(tmp_path: Path) -> None:
    options = RendererOptions(tokens_per_image=77)

    renderer = load_renderer(str(write_tiny_vl_model(tmp_path)), options)

    opening = renderer.opening([user("go", picture("a"))], [])
    assert [image.num_tokens for image in opening.images] == [77]


def test_template_variables_reach_the_template(tmp_path: Path) -> None:
    folder = str(write_tiny_text_model(tmp_path))

    thinking = load_renderer(folder, RendererOptions())
    not_thinking = load_renderer(folder, RendererOptions(variables={"enable_thinking": False}))

    assert len(not_thinking.generation_prompt) > len(thinking.generation_prompt)


def test_another_template_is_taken_from_a_file_or_as_text(tmp_path: Path) -> None:
    folder = str(write_tiny_text_model(tmp_path / "model"))
    other = template().replace("assistant", "robot")
    file = tmp_path / "other.jinja"
    file.write_text(other, encoding="utf-8")

    prompts = {
        load_renderer(folder, RendererOptions(chat_template=given)).generation_prompt
        for given in (str(file), other)
    }

    assert len(prompts) == 1
    assert prompts != {load_renderer(folder, RendererOptions()).generation_prompt}


def test_a_template_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    options = RendererOptions(chat_template=str(tmp_path / "missing.jinja"))

    with pytest.raises(InvalidArgumentError, match=r"missing\.jinja"):
        load_renderer(str(write_tiny_text_model(tmp_path)), options)


def test_a_model_without_a_template_is_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = write_tiny_text_model(tmp_path)
    (folder / "chat_template.jinja").unlink()

    with pytest.raises(InvalidArgumentError, match="no chat template of its own"):
        load_renderer(str(folder), RendererOptions())


def test_of_several_templates_the_one_for_tools_is_taken(tmp_path: Path) -> None:
    folder = write_tiny_text_model(tmp_path)
    (folder / "chat_template.jinja").unlink()
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text())
    named = {"default": "{{- 'no messages' }}", "tool_use": template()}
    config["chat_template"] = [{"name": name, "template": text} for name, text in named.items()]
    file.write_text(json.dumps(config))

    load_renderer(str(folder), RendererOptions())
