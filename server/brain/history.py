"""The conversation read back as what was done and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from server.brain.interface import Message


@dataclass(frozen=True)
class ToolUse:
    """One tool call and its result.

    Attributes:
        arguments: As called; empty if they were not a JSON object.
        data: The result as a JSON object; empty if it was none.
        text: The result as it came.
    """

    name: str
    arguments: dict[str, Any]
    text: str
    data: dict[str, Any]
    is_error: bool


def task_of(messages: Iterable[Message]) -> str:
    """The newest words of the user."""
    texts = [m.text for m in messages if m.role == "user" and m.text.strip()]
    return texts[-1] if texts else ""


def tool_uses(messages: Iterable[Message]) -> list[ToolUse]:
    """Answered calls, in the order they were made."""
    messages = list(messages)
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    uses = []
    for message in messages:
        for call in message.tool_calls:
            result = results.get(call.tool_call_id)
            if result is not None:
                uses.append(
                    ToolUse(
                        call.name,
                        _object(call.arguments_json),
                        result.text,
                        _object(result.text),
                        result.is_error,
                    )
                )
    return uses


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
