"""Prefix refresh on a real engine with a small pool: what it saves, and that nobody notices it.

The front end's engine and the hub are in this process, the worker with vLLM is a process of its
own. Conversations are about PREFIX_BLOCKS long, and three of them nearly fill the pool.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import tomllib

from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import SYSTEM_CLOCK, VirtualClock, pause
from robot_sdk.messages import Sampling, TokenUsage
from robot_sdk.telemetry import no_telemetry
from server.brain.build import build_brain
from server.brain.interface import (
    Finished,
    ImagePart,
    Message,
    Reasoning,
    StoredImage,
    Text,
    TextPart,
    Turn,
)
from server.brain.vllm_engine.engine import VllmEngine
from server.config import EpisodesSection, from_tree
from server.core.admission import WorkingSetAdmission, WorkingSetSettings
from server.core.leases import EpisodeInfo, LeaseTable
from server.core.registry import EpisodeRegistry
from server.core.residency import is_full_prefix_hit
from server.door import engine_gauges
from server.rpc.hub import EpisodeHub, LiveEpisode, TurnRecord
from tests.integration.vllm.serving import BLOCK_TOKENS, ENVIRONMENT, LOAD_PATIENCE_S, toml

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

POOL_BLOCKS = 128
PREFIX_BLOCKS = 38
#: Two tokens each.
PREFIX_WORDS = BLOCK_TOKENS * PREFIX_BLOCKS // 2
SHORT = Sampling(max_output_tokens=8, temperature=0.0)
_Result = TypeVar("_Result")
_names = (f"episode-{n}" for n in itertools.count())


class Host:
    """An engine, and the event loop that it lives on."""

    def __init__(self, model: Path) -> None:
        text = toml(
            model,
            num_gpu_blocks_override=POOL_BLOCKS,
            max_model_len=3072,
            tool_calls="off",
            tool_call_parser="",
        )
        self._runner = asyncio.Runner()
        self.config = from_tree(tomllib.loads(text))
        self.engine = self.run(self._start)

    async def _start(self) -> VllmEngine:
        engine = build_brain(self.config, SYSTEM_CLOCK)
        assert isinstance(engine, VllmEngine)
        await engine.start()
        async with asyncio.timeout(LOAD_PATIENCE_S):
            await engine.loaded()
        return engine

    def run(self, scenario: Callable[[], Awaitable[_Result]]) -> _Result:
        async def bounded() -> _Result:
            async with asyncio.timeout(LOAD_PATIENCE_S):
                return await scenario()

        return self._runner.run(bounded())

    def close(self) -> None:
        self.run(self.engine.stop)
        self._runner.close()


@pytest.fixture(scope="module")
def host(vl_model: Path) -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        host = Host(vl_model)
        yield host
        host.close()


@dataclass
class Conversation:
    """One episode at the engine. `name` is its id and, unless told otherwise, what it is about."""

    engine: VllmEngine
    name: str = field(default_factory=lambda: next(_names))
    about: str = ""
    turns: int = 0
    answers: list[str] = field(default_factory=list)

    async def take_turn(self, num_words: int = 10, image: StoredImage | None = None) -> TokenUsage:
        """A committed turn that adds so many words, and perhaps a picture."""
        answer, usage = "", None
        async for event in self.asking(num_words, SHORT, image):
            if isinstance(event, (Text, Reasoning)):
                answer += event.text
            elif isinstance(event, Finished):
                usage = event.usage
        self.commit()
        self.answers.append(answer)
        assert usage is not None
        return usage

    def asking(
        self, num_words: int, sampling: Sampling, image: StoredImage | None = None
    ) -> AsyncIterator[object]:
        system = Message("system", (TextPart(self.about or self.name),))
        user = Message("user", (TextPart(" robot" * num_words),))
        images = {}
        if image is not None:
            images = {f"{self.name}-{self.turns}": image}
            parts = [ImagePart(name, image.height, image.width) for name in images]
            user = Message("user", (*user.parts, *parts))
        messages = (user,) if self.turns else (system, user)
        return self.engine.decide(
            Turn(
                self.name,
                self.turns,
                messages,
                (),
                sampling,
                num_new_messages=len(messages),
                images=images,
            )
        )

    def commit(self) -> None:
        self.engine.commit(self.name, self.turns)
        self.turns += 1

    async def grow(self) -> TokenUsage:
        """A turn that makes it as long as the others of a test."""
        return await self.take_turn(num_words=PREFIX_WORDS)

    async def refresh(self) -> bool | None:
        return await self.engine.refresh(self.name)

    def end(self) -> None:
        self.engine.end_episode(self.name)


def is_hit(usage: TokenUsage) -> bool:
    assert usage.cached_tokens is not None
    return is_full_prefix_hit(
        cached_tokens=usage.cached_tokens,
        expected_prefix_tokens=usage.input_tokens - usage.new_tokens,
        block_tokens=BLOCK_TOKENS,
    )


async def push(engine: VllmEngine, num: int) -> None:
    """So many other episodes come and go."""
    for _ in range(num):
        other = Conversation(engine)
        await other.grow()
        other.end()


def picture(seed: int) -> StoredImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    return StoredImage(common_pb2.IMAGE_ENCODING_RGB8, 48, 64, pixels.tobytes())


@pytest.mark.parametrize("with_refresh", [False, True])
def test_a_prefix_that_others_push_out_is_there_if_it_was_refreshed(
    host: Host, with_refresh: bool
) -> None:
    async def scenario() -> bool:
        kept = Conversation(host.engine)
        await kept.grow()
        await push(host.engine, 2)
        if with_refresh:
            assert await kept.refresh() is True
        await push(host.engine, 1)
        usage = await kept.take_turn()
        kept.end()
        return is_hit(usage)

    assert host.run(scenario) is with_refresh


def test_a_refresh_that_comes_too_late_says_so_and_brings_the_prefix_back(host: Host) -> None:
    async def scenario() -> None:
        late = Conversation(host.engine)
        await late.grow()
        await push(host.engine, 4)
        assert await late.refresh() is False
        assert await late.refresh() is True
        assert is_hit(await late.take_turn())
        late.end()

    host.run(scenario)


@pytest.mark.parametrize("with_refresh", [False, True])
def test_pictures_are_kept_as_text_is(host: Host, with_refresh: bool) -> None:
    async def scenario() -> bool:
        kept = Conversation(host.engine)
        for number in range(3):
            await kept.take_turn(200, picture(number))
        await push(host.engine, 2)
        if with_refresh:
            assert await kept.refresh() is True
        await push(host.engine, 1)
        usage = await kept.take_turn()
        assert usage.num_images == 3
        kept.end()
        return is_hit(usage)

    assert host.run(scenario) is with_refresh


def test_no_answer_and_no_token_count_depends_on_a_refresh(host: Host) -> None:
    async def scenario(with_refresh: bool) -> tuple[list[str], list[TokenUsage]]:
        talk = Conversation(host.engine, about="the same talk")
        usages = [await talk.grow()]
        for number in range(3):
            if with_refresh:
                assert await talk.refresh() is True
            usages.append(await talk.take_turn(40, picture(number)))
        talk.end()
        # Otherwise the second talk would find the blocks of the first.
        await push(host.engine, 4)
        return talk.answers, usages

    plain = host.run(lambda: scenario(with_refresh=False))
    refreshed = host.run(lambda: scenario(with_refresh=True))

    assert all(plain[0])
    assert all(is_hit(usage) for usage in plain[1][1:])
    assert refreshed == plain


def test_a_turn_that_is_being_answered_is_refreshed_beside_it(host: Host) -> None:
    async def scenario() -> None:
        busy = Conversation(host.engine)
        await busy.grow()
        asking = busy.asking(10, Sampling(max_output_tokens=200, temperature=0.0))
        await anext(asking)
        found = await busy.refresh()
        events = [event async for event in asking]
        busy.commit()

        assert found is True
        finished = events[-1]
        assert isinstance(finished, Finished)
        assert finished.usage is not None
        assert is_hit(finished.usage)
        before = finished.usage.input_tokens + finished.usage.output_tokens
        after = await busy.take_turn()
        assert is_hit(after)
        assert after.input_tokens - after.new_tokens == before
        busy.end()

    host.run(scenario)


def test_a7_refreshes_that_are_given_up_leave_nothing_behind(host: Host) -> None:
    async def scenario() -> None:
        kept = Conversation(host.engine)
        await kept.grow()
        given_up = [asyncio.ensure_future(kept.refresh()) for _ in range(5)]
        await asyncio.sleep(0)
        for task in given_up:
            task.cancel()
        assert await kept.refresh() is True
        assert is_hit(await kept.take_turn())
        kept.end()
        assert await kept.refresh() is None
        load = host.engine.load
        assert load is not None
        assert (load.requests_running, load.kv_cache_usage) == (0, 0.0)

    host.run(scenario)


class Fleet:
    """The server's hub and registry over the engine, on a virtual clock."""

    def __init__(self, host: Host, refresh: bool) -> None:
        ids = (f"{next(_names)}-{n}" for n in itertools.count())
        self._engine = host.engine
        self.clock = VirtualClock()
        self.registry = EpisodeRegistry(
            LeaseTable(1000.0, "boot", lambda: next(ids)),
            WorkingSetAdmission(WorkingSetSettings(refresh=refresh)),
        )
        self.hub = EpisodeHub(
            self.registry,
            EpisodesSection(),
            "boot",
            self.clock,
            no_telemetry(),
            on_episode_end=host.engine.end_episode,
            engine_gauges=lambda: engine_gauges(host.config.admission, host.engine),
            refresh=host.engine.refresh,
        )

    def open(self, name: str) -> tuple[LiveEpisode, Conversation]:
        info = EpisodeInfo(name, robot_id=name, uses_brain=True)
        live, _, _ = self.hub.open(info, common_pb2.TraceContext())
        return live, Conversation(self._engine, live.episode_id)

    async def take_turn(self, robot: tuple[LiveEpisode, Conversation], num_words: int) -> bool:
        """A turn as a servicer runs it, and a second and a half on the clock."""
        live, conversation = robot
        lost = self.registry.ledger.totals.refreshes_lost
        await self.hub.hold_turn(live)
        usage = await conversation.take_turn(num_words)
        record = TurnRecord("", "", (), Finished(usage=usage))
        self.hub.turn_committed(live, record, self.clock.now_s(), latency_s=0.1)
        self.clock.advance(1.5)
        self.hub.tick()
        while self.hub._refreshes._began_s:
            await pause(0.001)
        assert self.registry.ledger.totals.refreshes_lost == lost
        return is_hit(usage)


@pytest.mark.parametrize("refresh", [False, True])
def test_the_server_keeps_a_waiting_robot_s_prefix_by_itself(host: Host, refresh: bool) -> None:
    async def scenario() -> tuple[bool, int]:
        fleet = Fleet(host, refresh)
        waiting = fleet.open("waiting")
        await fleet.take_turn(waiting, PREFIX_WORDS)
        for name in ("b", "c", "d"):
            other = fleet.open(name)
            await fleet.take_turn(other, PREFIX_WORDS)
            fleet.hub.end_by_operator(other[0].episode_id, "")
        hit = await fleet.take_turn(waiting, 10)
        fleet.hub.end_all()
        return hit, fleet.registry.ledger.totals.refreshes_found

    hit, num_found = host.run(scenario)

    assert hit is refresh
    assert (num_found > 0) is refresh
