"""The worker's side of a refresh, over a played engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from robot_sdk.clock import pause
from server.brain.interface import EngineInfo
from server.brain.rendering.interface import PromptDraft
from server.brain.vllm_engine import refresh as refresh_module
from server.brain.vllm_engine.episodes import HostedEpisode, HostedEpisodes
from server.brain.vllm_engine.refresh import PrefixRefresher
from server.brain.vllm_engine.seen_prefix import seen_prompt

BLOCK = 32


class FakeStream:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, header: dict[str, Any]) -> None:
        self.sent.append(header)


class Played:
    """An engine that has so many tokens of every prompt, or raises, or never answers."""

    def __init__(self) -> None:
        self.cached_tokens: int | None = 0
        self.error: Exception | None = None
        self.errored = False
        self.endless = False
        self.asked: list[dict[str, Any]] = []
        self.closed = 0

    async def input(
        self, engine: Any, token_ids: Sequence[int], images: Any, pictures: Any
    ) -> dict[str, Any]:
        return {"prompt_token_ids": list(token_ids)}

    async def outputs(
        self, engine: Any, prompt: Any, sampling: Any, structured: Any, name: str, **options: Any
    ) -> AsyncIterator[Any]:
        self.asked.append({"prompt": prompt["prompt_token_ids"], "sampling": sampling, **options})
        try:
            if self.error is not None:
                raise self.error
            while self.endless:
                await pause(0.001)
            yield SimpleNamespace(num_cached_tokens=self.cached_tokens)
        finally:
            self.closed += 1


class Bench:
    """A refresher with episode "e", which has seen 100 tokens and waits for its next turn."""

    def __init__(self, played: Played) -> None:
        self.stream = FakeStream()
        self.episode = HostedEpisode(None)  # type: ignore[arg-type]
        draft = PromptDraft(list(range(100)), (), 100, 0)
        self.episode.seen = seen_prompt(draft, 100, {"traceparent": "t"})
        episodes: HostedEpisodes = SimpleNamespace(get={"e": self.episode}.get)  # type: ignore[assignment]
        info = EngineInfo("vllm", "m", block_tokens=BLOCK)
        self.refresher = PrefixRefresher(played, info, episodes, None, self.stream)  # type: ignore[arg-type]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()
    monkeypatch.setattr(refresh_module, "engine_input", played.input)
    monkeypatch.setattr(refresh_module, "generate", played.outputs)
    return played


def run(played: Played, scenario: Callable[[Bench], Awaitable[None]]) -> list[dict[str, Any]]:
    """What the front end was told when the scenario is over and all refreshes have ended."""

    async def whole() -> list[dict[str, Any]]:
        bench = Bench(played)
        await scenario(bench)
        async with asyncio.timeout(5):
            while bench.refresher._tasks:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        return bench.stream.sent

    return asyncio.run(whole())


async def once(bench: Bench) -> None:
    bench.refresher.begin(1, "e")


@pytest.mark.parametrize(("cached_tokens", "found"), [(96, True), (95, False), (None, None)])
def test_a_prefix_is_found_if_all_that_can_be_cached_was(
    played: Played, cached_tokens: int | None, found: bool | None
) -> None:
    played.cached_tokens = cached_tokens

    assert run(played, once) == [{"op": "refreshed", "refresh": 1, "found": found}]


def test_the_request_is_short_greedy_and_before_every_turn(played: Played) -> None:
    run(played, once)

    (asked,) = played.asked
    assert asked["prompt"] == list(range(97))
    assert asked["sampling"]["max_tokens"] == 1
    assert asked["sampling"]["temperature"] == 0.0
    assert asked["priority"] == 0
    assert asked["trace_headers"] == {"traceparent": "t"}


def test_an_episode_that_is_not_here_or_was_never_seen_is_not_touched(played: Played) -> None:
    async def scenario(bench: Bench) -> None:
        bench.refresher.begin(1, "gone")
        bench.episode.seen = None
        bench.refresher.begin(2, "e")

    sent = run(played, scenario)

    assert [(header["refresh"], header["found"]) for header in sent] == [(1, None), (2, None)]
    assert played.asked == []


def test_an_error_of_the_engine_is_logged_and_answered(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    played.error = ValueError("too long")

    assert run(played, once) == [{"op": "refreshed", "refresh": 1, "found": None}]
    assert "too long" in caplog.text


def test_an_error_that_meets_every_refresh_is_logged_once(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bench: Bench) -> None:
        for number, words in enumerate(("too long", "too long", "something else")):
            played.error = ValueError(words)
            bench.refresher.begin(number, "e")
            while bench.refresher._tasks:
                await asyncio.sleep(0)

    assert len(run(played, scenario)) == 3
    assert caplog.text.count("could not be refreshed") == 2


def test_a7_a_cancelled_refresh_is_closed_at_the_engine_and_answered(played: Played) -> None:
    played.endless = True

    async def scenario(bench: Bench) -> None:
        bench.refresher.begin(1, "e")
        while not played.asked:
            await asyncio.sleep(0)
        bench.refresher.cancel(1)
        bench.refresher.cancel(7)

    assert run(played, scenario) == [{"op": "refreshed", "refresh": 1, "found": None}]
    assert played.closed == 1


def test_one_that_is_cancelled_in_the_moment_it_comes_is_answered(played: Played) -> None:
    async def scenario(bench: Bench) -> None:
        bench.refresher.begin(1, "e")
        bench.refresher.cancel(1)

    assert run(played, scenario) == [{"op": "refreshed", "refresh": 1, "found": None}]
