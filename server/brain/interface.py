"""What a brain is to this server.

`BrainEngine` is the protocol of the front end: asynchronous, many turns at once. `Planner` is the
small protocol for an engine of your own that decides in plain blocking Python: the server runs it
in a worker process (`engine = "factory"`, `factory = "module:callable"`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, Union

from robot_sdk.messages import Sampling, TokenUsage

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "aborted"]


@dataclass(frozen=True)
class TextPart:
    """Text of a message."""

    text: str


@dataclass(frozen=True)
class ImagePart:
    """A picture of a message, without its bytes. Size in pixels."""

    image_id: str
    height: int
    width: int
    camera: str = ""


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it."""

    tool_call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True)
class Message:
    """One entry of the conversation. `tool_calls` on assistant messages only."""

    role: Role
    parts: tuple[TextPart | ImagePart, ...]
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def text(self) -> str:
        """All text parts, joined by newlines."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @cached_property
    def as_json(self) -> bytes:
        """For the way to a worker process. Made once: a message is sent again at every turn."""
        parts = [vars(part) for part in self.parts]
        calls = [vars(call) for call in self.tool_calls]
        return _json({**vars(self), "parts": parts, "tool_calls": calls})


@dataclass(frozen=True)
class Tool:
    """A tool that may be called. `parameters_json` is JSON Schema."""

    name: str
    description: str
    parameters_json: str

    @cached_property
    def as_json(self) -> bytes:
        """For the way to a worker process. Made once, as of a message."""
        return _json(vars(self))


@dataclass(frozen=True)
class Turn:
    """One decision to make: the whole conversation up to here, oldest message first."""

    episode_id: str
    turn_index: int
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    sampling: Sampling
    slack_s: float | None = None


@dataclass(frozen=True)
class Timing:
    """Where an engine spent its time, seconds. None is not measured."""

    queue_s: float | None = None
    preprocess_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    modelled_delay_s: float | None = None


@dataclass(frozen=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True)
class Reasoning:
    """More of the thinking before the answer."""

    text: str


@dataclass(frozen=True)
class Finished:
    """The last event of a turn. `usage` None: the server estimates."""

    finish_reason: FinishReason = "stop"
    usage: TokenUsage | None = None
    timing: Timing = Timing()


Event = Union[Text, Reasoning, ToolCall, Finished]


@dataclass(frozen=True)
class EngineInfo:
    """What Handshake tells about the brain."""

    engine: str
    model: str
    max_context_tokens: int | None = None
    accepts_images: bool = True
    reports_cached_tokens: bool = False


class BrainEngine(Protocol):
    """Works on turns. All methods are called on the event loop."""

    @property
    def info(self) -> EngineInfo: ...

    @property
    def is_ready(self) -> bool:
        """Loaded, and able to take a turn now."""

    @property
    def num_running(self) -> int:
        """Turns being worked on, including cancelled ones whose work has not stopped yet."""

    @property
    def num_waiting(self) -> int: ...

    async def start(self) -> None:
        """Start loading; returns before it has finished."""

    async def loaded(self) -> None:
        """Wait for the first load. Raises RuntimeError if it failed."""

    async def stop(self) -> None: ...

    def decide(self, turn: Turn) -> AsyncGenerator[Event, None]:
        """Work on a turn; the last event is Finished.

        Closing the generator cancels the turn. Raises robot_sdk.errors classes only.
        """


class Planner(Protocol):
    """An engine that decides in blocking Python, run in a worker process, one thread per turn."""

    @property
    def info(self) -> EngineInfo:
        """What to tell clients. Constant."""

    def decide(self, turn: Turn, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        """The events of one turn. Without a Finished at the end, `Finished()` is added.

        A cancelled turn stops at its next event; a planner that works long between events looks at
        `is_cancelled` too.
        """


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
