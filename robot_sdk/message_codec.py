"""Conversation values to and from the wire of BrainService."""

from __future__ import annotations

import json
from collections.abc import Sequence

from robot_sdk.api.v1 import brain_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.images import encode_image
from robot_sdk.messages import (
    BrainTiming,
    ContentPart,
    FinishReason,
    ImagePart,
    Message,
    Role,
    Sampling,
    TextPart,
    TokenUsage,
    ToolCall,
    ToolSpec,
)
from robot_sdk.text import check_text
from robot_sdk.wire import optional

_ROLES: dict[Role, int] = {
    "system": brain_pb2.ROLE_SYSTEM,
    "user": brain_pb2.ROLE_USER,
    "assistant": brain_pb2.ROLE_ASSISTANT,
    "tool": brain_pb2.ROLE_TOOL,
}
_FINISH_REASONS: dict[int, FinishReason] = {
    brain_pb2.FINISH_REASON_STOP: "stop",
    brain_pb2.FINISH_REASON_LENGTH: "length",
    brain_pb2.FINISH_REASON_ABORTED: "aborted",
}


def encode_messages(messages: Sequence[Message]) -> list[brain_pb2.Message]:
    """The wire form.

    Raises:
        InvalidArgumentError: A role, text or picture that cannot travel, named by its place.
    """
    return [_encode_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def encode_tools(tools: Sequence[ToolSpec]) -> list[brain_pb2.ToolSpec]:
    """The wire form. Equal tools give equal bytes: the list is part of the model's prefix."""
    return [
        brain_pb2.ToolSpec(
            name=tool.name,
            description=check_text(tool.description, f"tool {tool.name!r} description"),
            parameters_json=json.dumps(
                tool.parameters, ensure_ascii=False, separators=(",", ":"), allow_nan=False
            ),
        )
        for tool in tools
    ]


def encode_sampling(sampling: Sampling) -> brain_pb2.Sampling:
    """The wire form."""
    return brain_pb2.Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_output_tokens=sampling.max_output_tokens,
        seed=sampling.seed,
    )


def decode_tool_call(wire: brain_pb2.ToolCall) -> ToolCall:
    """The plain value; the arguments stay text, exactly as the model wrote them."""
    return ToolCall(wire.tool_call_id, wire.name, wire.arguments_json)


def decode_finish_reason(wire: int) -> FinishReason:
    """The plain value. A reason that this version does not know is "aborted": nothing that may be
    incomplete is executed on a guess.
    """
    return _FINISH_REASONS.get(wire, "aborted")


def decode_usage(wire: brain_pb2.TokenUsage) -> TokenUsage:
    """The plain value; absent becomes None."""
    return TokenUsage(
        input_tokens=optional(wire, "input_tokens"),
        cached_tokens=optional(wire, "cached_tokens"),
        computed_tokens=optional(wire, "computed_tokens"),
        output_tokens=optional(wire, "output_tokens"),
        new_tokens=optional(wire, "new_tokens"),
        num_images=optional(wire, "num_images"),
        estimated=wire.estimated,
    )


def encode_usage(usage: TokenUsage) -> brain_pb2.TokenUsage:
    """The wire form; None is left out, which 0 is not."""
    return brain_pb2.TokenUsage(
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        computed_tokens=usage.computed_tokens,
        output_tokens=usage.output_tokens,
        new_tokens=usage.new_tokens,
        num_images=usage.num_images,
        estimated=usage.estimated,
    )


def decode_brain_timing(wire: brain_pb2.BrainTiming) -> BrainTiming:
    """The plain value; absent becomes None."""
    return BrainTiming(
        server_received_ns=wire.server_received_ns or None,
        server_done_ns=wire.server_done_ns or None,
        queue_s=optional(wire, "queue_s"),
        preprocess_s=optional(wire, "preprocess_s"),
        prefill_s=optional(wire, "prefill_s"),
        decode_s=optional(wire, "decode_s"),
        time_to_first_token_s=optional(wire, "time_to_first_token_s"),
        modelled_delay_s=optional(wire, "modelled_delay_s"),
    )


def _encode_message(message: Message, name: str) -> brain_pb2.Message:
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidArgumentError(
            f"{name} has an unknown role", field=name, value=message.role, allowed=_ROLES
        )
    if message.role == "tool" and not message.tool_call_id:
        raise InvalidArgumentError(
            f"{name} is a tool's answer without a tool_call_id",
            field=name,
            hint="set tool_call_id to the id of the ToolCall that it answers",
        )
    return brain_pb2.Message(
        role=role,  # type: ignore[arg-type]
        parts=[_encode_part(part, f"{name}.parts[{i}]") for i, part in enumerate(message.parts)],
        tool_call_id=message.tool_call_id,
        tool_name=message.tool_name,
        is_error=message.is_error,
    )


def _encode_part(part: ContentPart, name: str) -> brain_pb2.ContentPart:
    if isinstance(part, TextPart):
        return brain_pb2.ContentPart(text=check_text(part.text, name))
    if isinstance(part, ImagePart):
        return brain_pb2.ContentPart(image=encode_image(part.image, part.camera, name))
    raise InvalidArgumentError(
        f"{name} is neither text nor picture",
        field=name,
        value=type(part).__name__,
        allowed=["TextPart", "ImagePart"],
    )
