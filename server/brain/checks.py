"""What an engine says, checked before it counts.

Values of a wrong kind would come to light only when the answer is written to the robot: after the
turn was committed, and again at every replay of it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from robot_sdk.errors import BadModelOutputError
from server.brain.interface import Event, Finished, Reasoning, Text, Timing, TokenUsage, ToolCall

_FINISH_REASONS = ("stop", "length", "aborted")
_MAX_COUNT = 2**32 - 1
#: Of one turn. A model that has lost its way writes the start of a call again and again; each is a
#: message of its own to the robot, which must answer every one.
MAX_TOOL_CALLS = 128


def check_event(event: Event) -> None:
    """Pass an event of an engine.

    Raises:
        BadModelOutputError: Names the field that has another type, or a value that cannot be sent.
    """
    if isinstance(event, (Text, Reasoning)):
        _check_text("text", event.text)
    elif isinstance(event, ToolCall):
        _check_text("tool_call_id", event.tool_call_id)
        _check_text("name", event.name)
        _check_text("arguments_json", event.arguments_json)
    elif isinstance(event, Finished):
        if event.finish_reason not in _FINISH_REASONS:
            raise _wrong("finish_reason", event.finish_reason, _FINISH_REASONS)
        if event.usage is not None:
            _check_usage(event.usage)
        _check_timing(event.timing)
    else:
        raise _wrong("event", event, ("Text", "Reasoning", "ToolCall", "Finished"))


def check_num_calls(num_calls: int) -> None:
    """Pass a turn with so many calls.

    Raises:
        BadModelOutputError: More than MAX_TOOL_CALLS.
    """
    if num_calls > MAX_TOOL_CALLS:
        raise BadModelOutputError(
            "the model calls too many tools in one turn",
            field="tool_calls",
            value=num_calls,
            allowed=(f"at most {MAX_TOOL_CALLS}",),
        )


def event_bytes(event: Event) -> int:
    """What an event adds to the output of its turn, counted in characters."""
    if isinstance(event, (Text, Reasoning)):
        return len(event.text)
    if isinstance(event, ToolCall):
        return len(event.tool_call_id) + len(event.name) + len(event.arguments_json)
    return 0


def _check_text(field: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _wrong(field, value, ("a text",))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(field, value, ("text without lone surrogates",)) from None


def _check_usage(usage: Any) -> None:
    if not isinstance(usage, TokenUsage):
        raise _wrong("usage", usage, ("a TokenUsage", "None"))
    for field in dataclasses.fields(TokenUsage):
        value = getattr(usage, field.name)
        if field.name == "estimated":
            if not isinstance(value, bool):
                raise _wrong("usage.estimated", value, ("True", "False"))
        elif value is not None and (type(value) is not int or not 0 <= value <= _MAX_COUNT):
            raise _wrong(f"usage.{field.name}", value, (f"0..{_MAX_COUNT}", "None"))


def _check_timing(timing: Any) -> None:
    if not isinstance(timing, Timing):
        raise _wrong("timing", timing, ("a Timing",))
    for field in dataclasses.fields(Timing):
        value = getattr(timing, field.name)
        if value is not None and not (
            isinstance(value, (int, float)) and math.isfinite(value) and value >= 0
        ):
            raise _wrong(f"timing.{field.name}", value, ("seconds, >= 0", "None"))


def _wrong(field: str, value: object, allowed: tuple[str, ...]) -> BadModelOutputError:
    return BadModelOutputError(
        "the engine gave a value that cannot be sent",
        field=field,
        value=repr(value)[:200],
        allowed=allowed,
    )
