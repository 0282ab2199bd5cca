"""A turn on its way to the worker: new messages as JSON, then the bytes of its new pictures."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from server.brain.codec import message_from_json
from server.brain.interface import Message, Sampling, StoredImage, Tool, Turn
from server.worker.framing import Frame


@dataclass(frozen=True)
class HostedTurn:
    """What the worker gets of a turn.

    Attributes:
        messages: The new ones.
        tools: On turn 0 only.
        images: Bytes of pictures that the worker has not had yet, by image id.
        slack_s: Seconds until the robot runs out of things to do; None is unknown.
    """

    episode_id: str
    turn_index: int
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    sampling: Sampling
    images: Mapping[str, StoredImage]
    slack_s: float | None
    trace_headers: Mapping[str, str]


def encode_turn(turn: Turn, known_images: Container[str]) -> tuple[dict[str, Any], bytes]:
    """Header fields and body of a turn's frame. Pictures in `known_images` are left out."""
    new_images = {name: it for name, it in turn.images.items() if name not in known_images}
    tools = turn.tools if turn.turn_index == 0 else ()
    text = b"".join(
        (
            b'{"messages":[',
            b",".join([message.as_json for message in turn.new_messages]),
            b'],"tools":[',
            b",".join([tool.as_json for tool in tools]),
            b"]}",
        )
    )
    header = {
        "episode": turn.episode_id,
        "turn_index": turn.turn_index,
        "sampling": vars(turn.sampling),
        "slack_s": turn.slack_s,
        "trace": dict(turn.trace_headers),
        "text_bytes": len(text),
        "images": [
            [name, it.encoding, it.height, it.width, len(it.data)]
            for name, it in new_images.items()
        ],
    }
    return header, b"".join((text, *(it.data for it in new_images.values())))


def decode_turn(frame: Frame) -> HostedTurn:
    """The turn of a frame that `encode_turn` made."""
    header, body = frame.header, frame.body
    start = header["text_bytes"]
    text = json.loads(body[:start])
    images = {}
    for name, encoding, height, width, num_bytes in header["images"]:
        images[name] = StoredImage(encoding, height, width, body[start : start + num_bytes])
        start += num_bytes
    return HostedTurn(
        episode_id=header["episode"],
        turn_index=header["turn_index"],
        messages=tuple(message_from_json(item) for item in text["messages"]),
        tools=tuple(Tool(**item) for item in text["tools"]),
        sampling=Sampling(**header["sampling"]),
        images=images,
        slack_s=header["slack_s"],
        trace_headers=header["trace"],
    )
