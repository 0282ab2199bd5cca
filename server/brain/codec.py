"""Turns and events as JSON, for the way to a worker process and back.

The conversation is sent whole at every turn, so that a worker that was started again can go on with
any of them. It is joined from bytes that its messages keep, which costs the event loop a copy.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from server.brain.interface import (
    Event,
    Finished,
    ImagePart,
    Message,
    Reasoning,
    Sampling,
    Text,
    TextPart,
    Timing,
    TokenUsage,
    Tool,
    ToolCall,
    Turn,
)

_EVENTS: dict[str, type[Event]] = {
    cls.__name__: cls for cls in (Text, Reasoning, ToolCall, Finished)
}


def encode_turn(turn: Turn) -> bytes:
    fields = {
        "episode_id": turn.episode_id,
        "turn_index": turn.turn_index,
        "sampling": vars(turn.sampling),
        "slack_s": turn.slack_s,
    }
    return b"".join(
        (
            b'{"fields":',
            json.dumps(fields).encode(),
            b',"messages":[',
            b",".join([message.as_json for message in turn.messages]),
            b'],"tools":[',
            b",".join([tool.as_json for tool in turn.tools]),
            b"]}",
        )
    )


def decode_turn(encoded: bytes) -> Turn:
    whole = json.loads(encoded)
    data = whole["fields"]
    return Turn(
        episode_id=data["episode_id"],
        turn_index=data["turn_index"],
        messages=tuple(message_from_json(item) for item in whole["messages"]),
        tools=tuple(Tool(**item) for item in whole["tools"]),
        sampling=Sampling(**data["sampling"]),
        slack_s=data["slack_s"],
    )


def event_to_json(event: Event) -> dict[str, Any]:
    return {"kind": type(event).__name__, **dataclasses.asdict(event)}


def event_from_json(data: dict[str, Any]) -> Event:
    fields = {key: value for key, value in data.items() if key != "kind"}
    cls = _EVENTS[data["kind"]]
    if cls is Finished:
        usage = fields["usage"]
        fields["usage"] = None if usage is None else TokenUsage(**usage)
        fields["timing"] = Timing(**fields["timing"])
    return cls(**fields)


def message_from_json(data: dict[str, Any]) -> Message:
    """The message that `Message.as_json` wrote."""
    return Message(
        **{
            **data,
            "parts": tuple(
                TextPart(**part) if "text" in part else ImagePart(**part) for part in data["parts"]
            ),
            "tool_calls": tuple(ToolCall(**call) for call in data["tool_calls"]),
        }
    )
