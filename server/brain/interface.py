"""What a brain is to this server.

`BrainEngine` is the protocol of the front end: asynchronous, many turns at once. `Planner` is the
small protocol for an engine of your own that decides in plain blocking Python: the server runs it
in a worker process (`engine = "factory"`, `factory = "module:callable"`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, Union, runtime_checkable

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
class StoredImage:
    """A picture as it came: `encoding` is an ImageEncoding of the wire, size in pixels."""

    encoding: int
    height: int
    width: int
    data: bytes


@dataclass(frozen=True)
class Turn:
    """One decision to make.

    Attributes:
        messages: The whole conversation up to here, oldest message first.
        num_new_messages: How many at the end of `messages` are new in this turn. What comes before
            them is what the engine's own record of the episode says, if it keeps one.
        images: Bytes of the pictures in the new messages, by image id. An engine that keeps none
            of an earlier turn asks `find_image`.
        find_image: Any picture of this episode by its id, None if there is none.
        slack_s: Seconds until the robot runs out of things to do; None is unknown.
        deadline_s: Seconds the client will wait from now; None is no bound.
        trace_headers: W3C trace context (traceparent, tracestate) of the turn, for engines that
            record spans of their own. Empty: not traced.
    """

    episode_id: str
    turn_index: int
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    sampling: Sampling
    slack_s: float | None = None
    num_new_messages: int = 0
    images: Mapping[str, StoredImage] = field(default_factory=dict)
    find_image: Callable[[str], StoredImage | None] = lambda _: None
    deadline_s: float | None = None
    trace_headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What this turn adds."""
        return self.messages[len(self.messages) - self.num_new_messages :]


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
    """The last event of a turn.

    Attributes:
        usage: None: the server estimates.
        dropped_turns: Turns that were taken out of the conversation before this one, because it had
            become too long for the model.
    """

    finish_reason: FinishReason = "stop"
    usage: TokenUsage | None = None
    timing: Timing = Timing()
    dropped_turns: int = 0


Event = Union[Text, Reasoning, ToolCall, Finished]


@dataclass(frozen=True)
class EngineInfo:
    """What Handshake tells about the brain.

    Attributes:
        pool_blocks, block_tokens: Of the KV cache.
        snapshot_interval_tokens: Which snapshots of layers with a state or a sliding window stay in
            the prefix cache. None: all that count, there are no such layers, or not told. 0: the
            one at the end of each prompt, so that no block which an output fills is found again.
            N: also one every N tokens.
        can_refresh: Whether `refresh` can touch prefixes.
    """

    engine: str
    model: str
    max_context_tokens: int | None = None
    accepts_images: bool = True
    reports_cached_tokens: bool = False
    pool_blocks: int | None = None
    block_tokens: int | None = None
    snapshot_interval_tokens: int | None = None
    can_refresh: bool = False


@dataclass(frozen=True)
class EngineLoad:
    """Newest gauges and counters of an engine; None is not told by it.

    `kv_cache_usage` is the share of the pool that running requests hold, 0 to 1: prefixes of idle
    episodes are not in it. Totals count since the engine started.
    """

    kv_cache_usage: float | None = None
    requests_running: int | None = None
    requests_waiting: int | None = None
    preemptions_total: int | None = None
    prompt_tokens_total: int | None = None
    cached_tokens_total: int | None = None
    generated_tokens_total: int | None = None


class BrainEngine(Protocol):
    """Works on turns. All methods are called on the event loop."""

    @property
    def info(self) -> EngineInfo: ...

    @property
    def is_ready(self) -> bool:
        """Loaded, and able to take a turn now."""

    @property
    def problem(self) -> str:
        """Why it is not ready, for people; empty if it is."""

    @property
    def num_running(self) -> int:
        """Turns being worked on, including cancelled ones whose work has not stopped yet."""

    @property
    def num_waiting(self) -> int: ...

    @property
    def load(self) -> EngineLoad | None:
        """What the engine last said of itself. None: it says nothing."""

    async def start(self) -> None:
        """Start loading; returns before it has finished."""

    async def loaded(self) -> None:
        """Wait for the first load. Raises RuntimeError if it failed."""

    async def stop(self) -> None: ...

    def decide(self, turn: Turn) -> AsyncGenerator[Event, None]:
        """Work on a turn; the last event is Finished.

        Closing the generator cancels the turn. Raises robot_sdk.errors classes only.

        Whoever keeps a record of the episode adds this turn to it at `commit` and not before: a
        turn that was not committed may be asked for again, from the same conversation.
        """

    def commit(self, episode_id: str, turn_index: int) -> None:
        """The turn that finished last counts. Called before the next turn of the episode."""

    async def refresh(self, episode_id: str) -> bool | None:
        """Touch the prefix of an episode in the cache, so that it is not the next to be dropped.

        Changes nothing that a turn can notice. May be cancelled.

        Returns:
            Whether the whole prefix that the next turn can find again was there; False: a part was
            lost and has been computed anew. None: nothing was done, because the engine cannot, is
            not ready, or has nothing of the episode.
        """

    def end_episode(self, episode_id: str) -> None:
        """Forget the episode. Called once; also for one that never had a turn."""


@runtime_checkable
class LosesEpisodes(Protocol):
    """Of an engine that alone has what an episode needs to go on, and may lose it.

    Attributes:
        on_episodes_lost: Called on the event loop with the ids of episodes that cannot go on.
    """

    on_episodes_lost: Callable[[Collection[str]], None]


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
