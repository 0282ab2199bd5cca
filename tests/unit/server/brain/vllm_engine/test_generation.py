"""Prompts with pictures: what vLLM is shown, and what it is only told the name of."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from robot_sdk.api.v1 import common_pb2
from server.brain.interface import StoredImage
from server.brain.rendering.interface import ImageRef
from server.brain.vllm_engine.generation import engine_input
from server.brain.vllm_engine.pictures import EpisodePictures

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

RGB = common_pb2.IMAGE_ENCODING_RGB8


class Renderer:
    """vLLM's, with a cache of pictures that can be emptied."""

    def __init__(self) -> None:
        self.cached: set[str] = set()
        self.shown: list[list[str]] = []

    async def render_cmpl_async(self, prompts: list[Any]) -> list[Any]:
        (prompt,) = prompts
        ids = prompt.get("multi_modal_uuids", {"image": []})["image"]
        data = prompt.get("multi_modal_data", {"image": []})["image"]
        for name, pixels in zip(ids, data, strict=True):
            if pixels is None and name not in self.cached:
                raise ValueError("Cache miss for image at index 0 but data is not provided.")
        self.shown.append([name for name, pixels in zip(ids, data, strict=True) if pixels])
        self.cached.update(ids)
        return [{"prompt_token_ids": prompt["prompt_token_ids"]}]


def prompt(*names: str) -> tuple[list[int], tuple[ImageRef, ...]]:
    images = tuple(ImageRef(name, 2, 2, 4) for name in names)
    return [1] * (len(names) + 1), images


def pictures(*names: str) -> EpisodePictures:
    kept = EpisodePictures()
    kept.add({name: StoredImage(RGB, 2, 2, bytes(12)) for name in names})
    return kept


def test_d11_a_picture_is_decoded_and_shown_once_however_long_it_stays() -> None:
    renderer = Renderer()
    engine = SimpleNamespace(renderer=renderer)
    kept = pictures("a", "b", "c")

    for names in ("a", "ab", "abc"):
        asyncio.run(engine_input(engine, *prompt(*names), kept))

    assert renderer.shown == [["a"], ["b"], ["c"]]


def test_pictures_that_vllm_has_let_go_of_are_shown_again() -> None:
    renderer = Renderer()
    engine = SimpleNamespace(renderer=renderer)
    kept = pictures("a", "b", "c")
    asyncio.run(engine_input(engine, *prompt("a", "b"), kept))
    renderer.cached.clear()

    asyncio.run(engine_input(engine, *prompt("a", "b", "c"), kept))

    assert renderer.shown == [["a", "b"], ["a", "b", "c"]]


def test_a_prompt_that_vllm_refuses_for_another_reason_is_refused() -> None:
    class Refusing:
        async def render_cmpl_async(self, prompts: list[Any]) -> list[Any]:
            raise ValueError("the prompt is too long")

    kept = pictures("a")
    engine = SimpleNamespace(renderer=Renderer())
    asyncio.run(engine_input(engine, *prompt("a"), kept))
    engine.renderer = Refusing()

    with pytest.raises(ValueError, match="too long"):
        asyncio.run(engine_input(engine, *prompt("a"), kept))


def test_a_prompt_without_pictures_brings_none() -> None:
    renderer = Renderer()
    rendered = asyncio.run(
        engine_input(SimpleNamespace(renderer=renderer), *prompt(), EpisodePictures())
    )

    assert rendered["prompt_token_ids"] == [1]
    assert renderer.shown == [[]]
