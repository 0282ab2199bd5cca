"""The worker's side of a turn, over a played engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from robot_sdk.api.v1 import common_pb2
from robot_sdk.clock import pause
from robot_sdk.messages import Sampling
from server.brain.interface import EngineInfo, Message, Text, TextPart, ToolCall, Turn
from server.brain.rendering.interface import ParsedOutput, PromptDraft
from server.brain.vllm_engine import host as host_module
from server.brain.vllm_engine import refresh as refresh_module
from server.brain.vllm_engine.host import Host
from server.brain.vllm_engine.requests import SamplingDefaults
from server.brain.vllm_engine.stats import LoadLogger
from server.brain.vllm_engine.turn_frame import encode_turn
from server.worker.framing import Frame

CALL = ToolCall("c0", "look", "{}")


class FakeStream:
    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], bytes]] = []

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.append((header, body))

    def of(self, operation: str) -> list[tuple[dict[str, Any], bytes]]:
        return [item for item in self.sent if item[0]["op"] == operation]


class FakeTranscript:
    """Ten tokens a turn, told by what has been committed."""

    def __init__(self) -> None:
        self.tokens = 0

    def draft(self, messages: Any, tools: Any) -> PromptDraft:
        return PromptDraft([1] * (self.tokens + 10), (), self.tokens + 10, self.tokens)

    def commit(self, draft: PromptDraft, output_ids: list[int], num_prompt_tokens: int) -> None:
        self.tokens = num_prompt_tokens + len(output_ids)


class FakeParser:
    def feed(self, text: str, token_ids: list[int]) -> list[Text]:
        return [Text(text)]

    def finish(self, finish_reason: str) -> ParsedOutput:
        return ParsedOutput(tool_calls=(CALL,))


class Played:
    """What the engine does: outputs of one token each, then a reason to end, or an error."""

    def __init__(self) -> None:
        self.reason: str | None = "stop"
        self.error: Exception | None = None
        self.errored = False
        self.endless = False
        self.asked: list[dict[str, Any]] = []
        self.closed = 0

    def get_num_unfinished_requests(self) -> int:
        return 0

    async def outputs(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        self.asked.append({"prompt": arguments[1], "sampling": arguments[2], **options})
        try:
            for index in range(3):
                reason = self.reason if index == 2 else None
                yield SimpleNamespace(
                    outputs=[SimpleNamespace(token_ids=[5], text=str(index), finish_reason=reason)],
                    num_cached_tokens=0 if index == 0 else None,
                    metrics=None,
                )
                if self.error is not None:
                    raise self.error
                while self.endless:
                    await pause(0.001)
        finally:
            self.closed += 1


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()

    async def engine_input(
        engine: Any, token_ids: Any, images: Any, pictures: Any
    ) -> dict[str, Any]:
        return {"prompt_token_ids": token_ids}

    for module in (host_module, refresh_module):
        monkeypatch.setattr(module, "engine_input", engine_input)
        monkeypatch.setattr(module, "generate", played.outputs)
    return played


def new_host(played: Played, stream: FakeStream) -> Host:
    model = SimpleNamespace(
        new_transcript=FakeTranscript,
        max_model_len=100,
        renderer=SimpleNamespace(forbidden_output_ids=frozenset(), image_token_id=None),
        parser=lambda episode, turn_index: FakeParser(),
        structured_outputs=lambda episode: None,
    )
    defaults = SamplingDefaults({}, None, None, 50, frozenset())
    info = EngineInfo("vllm", "m", block_tokens=4)
    return Host(played, info, model, defaults, LoadLogger(), stream, 0.0)  # type: ignore[arg-type]


def frame(turn_index: int, number: int) -> Frame:
    turn = Turn(
        "e",
        turn_index,
        (Message("user", (TextPart("hi"),)),),
        (),
        Sampling(),
        num_new_messages=1,
        trace_headers={"traceparent": "t"},
    )
    header, body = encode_turn(turn, ())
    return Frame({"op": "turn", "turn": number, **header}, body)


async def ended(stream: FakeStream, number: int) -> common_pb2.ErrorDetail | None:
    """Wait for the end of a turn; its error, if it has one."""
    while True:
        for header, body in stream.of("end"):
            if header["turn"] == number:
                return common_pb2.ErrorDetail.FromString(body) if body else None
        await pause(0.001)


def usage_of(stream: FakeStream, number: int) -> dict[str, Any]:
    events = [header["event"] for header, _ in stream.of("event") if header["turn"] == number]
    assert [event["kind"] for event in events] == ["Text"] * 3 + ["ToolCall", "Finished"]
    usage: dict[str, Any] = events[-1]["usage"]
    return usage


def test_a_turn_that_was_not_committed_is_asked_again_from_the_same_tokens(played: Played) -> None:
    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)
        for number in (1, 2):
            host.handle(frame(0, number))
            assert await ended(stream, number) is None
            assert usage_of(stream, number)["input_tokens"] == 10
        host.handle(Frame({"op": "commit", "episode": "e", "turn_index": 0}))
        host.handle(frame(1, 3))
        assert await ended(stream, 3) is None
        usage = usage_of(stream, 3)
        assert (usage["input_tokens"], usage["new_tokens"]) == (23, 10)
        assert (usage["cached_tokens"], usage["output_tokens"]) == (0, 3)

    asyncio.run(run())


def test_the_trace_goes_to_the_engine_and_the_answer_has_room_in_the_context(
    played: Played,
) -> None:
    async def run() -> None:
        stream = FakeStream()
        new = new_host(played, stream)
        new.handle(frame(0, 1))
        await ended(stream, 1)

    asyncio.run(run())
    (asked,) = played.asked
    assert asked["trace_headers"] == {"traceparent": "t"}
    assert asked["sampling"]["max_tokens"] == 50


@pytest.mark.parametrize("reason", ["abort", "error", None])
def test_a8_a_turn_that_the_engine_gives_up_is_cancelled_and_not_finished(
    played: Played, reason: str | None
) -> None:
    played.reason = reason

    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)
        host.handle(frame(0, 1))
        error = await ended(stream, 1)
        assert error is not None
        assert error.reason == common_pb2.ERROR_REASON_CANCELLED
        assert "Finished" not in [header["event"]["kind"] for header, _ in stream.of("event")]

    asyncio.run(run())


def test_a7_a_cancelled_turn_ends_when_its_request_is_closed(played: Played) -> None:
    played.endless = True

    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)
        host.handle(frame(0, 1))
        while not stream.of("event"):
            await pause(0.001)
        assert played.closed == 0
        host.handle(Frame({"op": "cancel", "turn": 1}))
        error = await ended(stream, 1)
        assert played.closed == 1
        assert error is not None
        assert error.reason == common_pb2.ERROR_REASON_CANCELLED

    asyncio.run(run())


def test_a_turn_of_a_dead_engine_says_nothing_because_its_process_is_about_to_end(
    played: Played,
) -> None:
    played.error = RuntimeError("engine dead")
    played.errored = True

    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)
        host.handle(frame(0, 1))
        while not played.closed:
            await pause(0.001)
        await pause(0.01)
        assert not stream.of("end")

    asyncio.run(run())


def test_c3_frames_of_what_is_over_change_nothing(played: Played) -> None:
    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)
        host.handle(Frame({"op": "cancel", "turn": 9}))
        host.handle(Frame({"op": "commit", "episode": "gone", "turn_index": 0}))
        host.handle(Frame({"op": "end_episode", "episode": "gone"}))
        assert stream.sent == []

    asyncio.run(run())


def test_a_turn_that_is_cancelled_in_the_moment_it_comes_still_ends(played: Played) -> None:
    """Both frames are in one read, so that the turn's task has not begun."""

    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)
        host.handle(frame(0, 1))
        host.handle(Frame({"op": "cancel", "turn": 1}))
        async with asyncio.timeout(5):
            error = await ended(stream, 1)
        assert error is not None
        assert error.reason == common_pb2.ERROR_REASON_CANCELLED
        host.handle(frame(0, 2))
        async with asyncio.timeout(5):
            assert await ended(stream, 2) is None

    asyncio.run(run())


def test_a_refresh_touches_what_the_engine_has_seen_and_changes_no_turn(played: Played) -> None:
    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)

        async def refresh(number: int) -> tuple[bool | None, int]:
            """What was found, and how long the prompt was."""
            num_asked = len(played.asked)
            host.handle(Frame({"op": "refresh", "refresh": number, "episode": "e"}))
            while len(stream.of("refreshed")) < number:
                await pause(0.001)
            header, _ = stream.of("refreshed")[-1]
            asked = played.asked[num_asked:]
            return header["found"], len(asked[0]["prompt"]["prompt_token_ids"]) if asked else 0

        assert await refresh(1) == (None, 0)
        host.handle(frame(0, 1))
        await ended(stream, 1)
        # Ten tokens are two blocks of four and a rest; with the answer of three it is twelve.
        assert await refresh(2) == (False, 9)
        host.handle(Frame({"op": "commit", "episode": "e", "turn_index": 0}))
        assert await refresh(3) == (False, 13)
        host.handle(frame(1, 2))
        await ended(stream, 2)
        assert usage_of(stream, 2)["input_tokens"] == 23
        host.handle(Frame({"op": "end_episode", "episode": "e"}))
        assert await refresh(4) == (None, 0)

    asyncio.run(run())


def test_a_turn_that_runs_is_touched_up_to_its_prompt_from_its_first_token_on(
    played: Played,
) -> None:
    played.endless = True

    async def run() -> None:
        stream = FakeStream()
        host = new_host(played, stream)
        host.handle(frame(0, 1))
        while not stream.of("event"):
            await pause(0.001)
        played.endless = False
        host.handle(Frame({"op": "refresh", "refresh": 1, "episode": "e"}))
        while len(played.asked) < 2:
            await asyncio.sleep(0)
        assert len(played.asked[1]["prompt"]["prompt_token_ids"]) == 9
        assert await ended(stream, 1) is None

    asyncio.run(run())
