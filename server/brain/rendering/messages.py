"""Messages of this server as the dicts that chat templates read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from server.brain.interface import ImagePart, Message, TextPart, Tool

#: Before the text of a failed tool; templates have no field for it.
ERROR_PREFIX = "Error: "

#: Objects and lists inside each other in a tool's schema. Templates, grammars and their compilers
#: go down recursively; no tool that a robot has comes near.
MAX_SCHEMA_LEVELS = 64

Escape = Callable[[str], str]


def message_dict(message: Message, escape: Escape) -> dict[str, Any]:
    """One message. Its content is a text, or a list of parts if it has pictures.

    Texts that stand next to each other become one, so that nothing can be hidden in the seam.
    """
    fields: dict[str, Any] = {"role": message.role, "content": _content(message, escape)}
    if message.role == "tool":
        fields["tool_call_id"] = escape(message.tool_call_id)
        fields["name"] = escape(message.tool_name)
    return fields


def call_dict(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One call of an assistant message."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def tool_dict(tool: Tool, escape_json: Callable[[Any], Any]) -> dict[str, Any]:
    """What a template is told of a tool. Fields of the schema keep the order they came in.

    Raises:
        InvalidArgumentError: The schema is not a JSON object, or nests too deeply.
    """
    try:
        parameters = json.loads(tool.parameters_json or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the tool's parameters are not JSON: {error}", field="tools", value=tool.name
        ) from error
    if not isinstance(parameters, dict):
        raise InvalidArgumentError(
            "the tool's parameters are not a JSON object", field="tools", value=tool.name
        )
    if _is_deeper(parameters, MAX_SCHEMA_LEVELS):
        raise InvalidArgumentError(
            "the tool's parameters nest too deeply",
            field="tools",
            value=tool.name,
            allowed=(f"at most {MAX_SCHEMA_LEVELS} levels",),
        )
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": escape_json(function)}


def _is_deeper(value: Any, num_levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    items = value.values() if isinstance(value, dict) else value
    return num_levels == 0 or any(_is_deeper(item, num_levels - 1) for item in items)


def pictures(messages: Sequence[Message]) -> list[ImagePart]:
    """All pictures, in order."""
    return [part for message in messages for part in message.parts if isinstance(part, ImagePart)]


def with_pictures_behind_results(messages: Sequence[Message]) -> list[Message]:
    """The same messages with pictures of tool results moved into a user message behind them.

    For models whose templates take text alone in tool results.
    """
    moved: list[Message] = []
    held: list[TextPart | ImagePart] = []
    for message in messages:
        if message.role != "tool" and held:
            moved.append(Message("user", tuple(held)))
            held = []
        if message.role == "tool":
            shown = [part for part in message.parts if isinstance(part, ImagePart)]
            if shown:
                held += [TextPart(f"Pictures of {message.tool_name or 'the tool'}:"), *shown]
        moved.append(_without_pictures(message) if message.role == "tool" else message)
    if held:
        moved.append(Message("user", tuple(held)))
    return moved


def _without_pictures(message: Message) -> Message:
    texts = tuple(part for part in message.parts if isinstance(part, TextPart))
    return Message(message.role, texts, message.tool_call_id, message.tool_name, message.is_error)


def _content(message: Message, escape: Escape) -> str | list[dict[str, str]]:
    parts = _with_error_prefix(message)
    if all(isinstance(part, TextPart) for part in parts):
        return escape(_joined(parts))
    content: list[dict[str, str]] = []
    for is_text, run in groupby(parts, lambda part: isinstance(part, TextPart)):
        if is_text:
            content.append({"type": "text", "text": escape(_joined(run))})
        else:
            content += [{"type": "image"} for _ in run]
    return content


def _with_error_prefix(message: Message) -> tuple[TextPart | ImagePart, ...]:
    if not message.is_error:
        return message.parts
    first, rest = TextPart(""), message.parts
    if rest and isinstance(rest[0], TextPart):
        first, rest = rest[0], rest[1:]
    return (TextPart(ERROR_PREFIX + first.text), *rest)


def _joined(parts: Iterable[TextPart | ImagePart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))
