"""What robot and brain say to each other, as plain values.

Their wire form is made by `robot_sdk.message_codec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "aborted"]


@dataclass(frozen=True)
class TextPart:
    """Text of any length and script."""

    text: str


@dataclass(frozen=True, eq=False)
class ImagePart:
    """One camera picture.

    Attributes:
        image: uint8 (H, W, 3) RGB, top row first; or the bytes of a complete JPEG or PNG file.
        camera: Camera it came from, for example "agentview".
    """

    image: NDArray[np.uint8] | bytes
    camera: str = ""


ContentPart = TextPart | ImagePart


@dataclass(frozen=True)
class Message:
    """One entry of the conversation.

    Attributes:
        tool_call_id: Role "tool" only: the `ToolCall.id` this answers.
        tool_name: Role "tool" only: name of that tool.
        is_error: Role "tool" only: the tool failed and the parts say why.
    """

    role: Role
    parts: tuple[ContentPart, ...]
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False

    @classmethod
    def of_text(cls, role: Role, text: str) -> Message:
        """A message with one text part."""
        return cls(role, (TextPart(text),))


@dataclass(frozen=True)
class ToolSpec:
    """A tool that the brain may call.

    Attributes:
        parameters: JSON Schema of the arguments, an object schema.
    """

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it; `arguments_json` has not been checked by anyone."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True)
class Sampling:
    """How the model picks its words. None: the server's configuration decides."""

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class TokenUsage:
    """Tokens of one turn. None is unknown, which differs from 0.

    Attributes:
        input_tokens: The whole prompt, history and new part.
        cached_tokens: Part of input_tokens that was found in the prefix cache.
        computed_tokens: Part of input_tokens that had to be computed.
        new_tokens: Prompt tokens added since the previous turn's prompt and output.
        num_images: Images in the whole prompt.
        estimated: True when the counts come from a rule of thumb and not from a tokenizer.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    computed_tokens: int | None = None
    output_tokens: int | None = None
    new_tokens: int | None = None
    num_images: int | None = None
    estimated: bool = False


@dataclass(frozen=True)
class BrainTiming:
    """Where the time of one turn went. Durations in seconds, None where not measured.

    Attributes:
        server_received_ns, server_done_ns: Server's monotonic clock; comparable with the robot's
            clock only through the measured offset.
        modelled_delay_s: Part of the time that is an added delay and not work.
    """

    server_received_ns: int | None = None
    server_done_ns: int | None = None
    queue_s: float | None = None
    preprocess_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    time_to_first_token_s: float | None = None
    modelled_delay_s: float | None = None

    @property
    def server_s(self) -> float | None:
        """Whole time the turn spent on the server, seconds."""
        if self.server_received_ns is None or self.server_done_ns is None:
            return None
        return (self.server_done_ns - self.server_received_ns) * 1e-9


@dataclass(frozen=True)
class TurnResult:
    """One committed decision of the brain.

    Attributes:
        index: Turn number within the episode, from 0.
        reasoning: Thinking text where the model shows it apart from its answer.
        tool_calls: In the order to execute them.
        finish_reason: "length" means the answer was cut: its last tool call must not be executed.
        started_s, ended_s: First request of this turn and its commit, on the client's clock.
        replayed: The server played back a turn it had committed before.
        num_attempts: Requests it took; more than one after a broken connection, or while the brain
            was not ready.
        unavailable_s: From the first of these to the last: the time that went by because the server
            or its brain was away. Part of `latency_s`.
    """

    index: int
    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: TokenUsage
    timing: BrainTiming
    started_s: float
    ended_s: float
    replayed: bool = False
    num_attempts: int = 1
    unavailable_s: float = 0.0
    engine: str = ""
    model: str = ""

    @property
    def latency_s(self) -> float:
        """Seconds from the first request of this turn to its commit, client side."""
        return self.ended_s - self.started_s
