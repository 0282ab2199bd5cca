"""The conversation as an endpoint wants it: pure, and the same bytes for the same message.

The body of a request is `{"model":…,"stream":true,"tools":[…],"messages":[…` and then what may
differ from turn to turn. So the body of turn n + 1 begins with the body of turn n up to the end of
its messages, followed by the model's answer and the new messages.

An assistant message is sent back as it came: text, tool calls with their arguments as the very
string that the model wrote, and its thinking (setting openai.reasoning). Two things are changed,
once, before the message is kept: arguments that are no JSON object travel as
`{"unreadable_arguments": "…"}`, because endpoints refuse a conversation that holds them, now and at
every later turn; and an answer without text and without calls has the text "".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.messages import Sampling
from server.brain.interface import ImagePart, Message, TextPart, Tool, ToolCall
from server.brain.openai_engine.pieces import Pieces, joined_by_commas

_NO_PARAMETERS = '{"type":"object","properties":{}}'


def render_tools(tools: Sequence[Tool], strict: bool = False) -> bytes:
    """The tool list, `[…]`. Schemas keep their own key order and spacing.

    Args:
        tools: In their own order.
        strict: Whether the endpoint shall hold the model to the schemas.

    Raises:
        InvalidArgumentError: A schema is no JSON object.
    """
    return b"[" + b",".join(_tool(tool, strict) for tool in tools) + b"]"


def render_messages(
    messages: Sequence[Message], urls: Mapping[str, bytes], tool_images: str
) -> list[Pieces]:
    """New messages of one turn, in the order the endpoint wants.

    Args:
        messages: What is new.
        urls: Data URL of every picture in them, by image id.
        tool_images: "tool" leaves pictures in tool messages, "user" moves them into one user
            message behind the tool messages of this turn.
    """
    rendered: list[Pieces] = []
    moved: list[tuple[Message, list[ImagePart]]] = []
    for message in messages:
        if message.role == "tool":
            images = [part for part in message.parts if isinstance(part, ImagePart)]
            if images and tool_images == "user":
                moved.append((message, images))
                rendered.append(_tool_message(message, (TextPart(_words(message)),), urls))
            else:
                rendered.append(_tool_message(message, _tool_parts(message), urls))
            continue
        rendered.extend(_moved_images(moved, urls))
        moved.clear()
        if message.role == "assistant":
            rendered.append(render_answer(message.text, "", "", message.tool_calls))
        else:
            rendered.append(_message({"role": message.role}, message.parts, urls))
    rendered.extend(_moved_images(moved, urls))
    return rendered


def render_answer(
    text: str, reasoning: str, reasoning_field: str, tool_calls: Sequence[ToolCall]
) -> Pieces:
    """The model's own message, to be sent back.

    Args:
        text: Its words.
        reasoning: Its thinking.
        reasoning_field: Field for the thinking; empty leaves it out.
        tool_calls: Its calls.
    """
    fields: dict[str, Any] = {"role": "assistant"}
    if reasoning and reasoning_field:
        fields[reasoning_field] = reasoning
    fields["content"] = text if text or not tool_calls else None
    if tool_calls:
        fields["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": readable(call.arguments_json)},
            }
            for call in tool_calls
        ]
    return (_dump(fields),)


def readable(arguments_json: str) -> str:
    """Arguments as they are if they are a JSON object; wrapped in one otherwise."""
    try:
        if isinstance(json.loads(arguments_json), dict):
            return arguments_json
    except (ValueError, RecursionError):
        pass
    return _dump({"unreadable_arguments": arguments_json}).decode()


def body(
    model: str,
    tools: bytes,
    messages: Iterable[Pieces],
    options: Mapping[str, Any],
) -> list[bytes]:
    """The pieces of a request's body; constant text first, then the conversation, then options.

    Args:
        model: Name of the model at the endpoint.
        tools: What `render_tools` gave.
        messages: What `render_messages` and `render_answer` gave, oldest first.
        options: Everything else, for example the temperature.
    """
    front = b'{"model":' + _dump(model) + b',"stream":true,'
    if tools != b"[]":
        front += b'"tools":' + tools + b","
    rest = _dump(options)[1:]
    return [
        front + b'"messages":[',
        *joined_by_commas(messages),
        b"]," + rest if options else b"]}",
    ]


def options_of(
    sampling: Sampling, max_tokens_field: str, with_usage: bool, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The options of a request. A turn's own sampling counts more than `extra`."""
    options = dict(extra)
    if with_usage:
        options["stream_options"] = {"include_usage": True}
    for name, value in (
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("seed", sampling.seed),
        (max_tokens_field, sampling.max_output_tokens),
    ):
        if value is not None:
            options[name] = value
    return options


def _tool(tool: Tool, strict: bool) -> bytes:
    parameters = tool.parameters_json.strip() or _NO_PARAMETERS
    try:
        schema = json.loads(parameters)
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        raise InvalidArgumentError(
            f"the parameters of tool {tool.name} are no JSON object",
            field=f"tools.{tool.name}.parameters_json",
            value=tool.parameters_json,
            allowed=("a JSON Schema of type object",),
        )
    fields = {"name": tool.name, "description": tool.description}
    front = _dump({**fields, "strict": True} if strict else fields)[:-1]
    return (
        b'{"type":"function","function":' + front + b',"parameters":' + parameters.encode() + b"}}"
    )


def _words(message: Message) -> str:
    """The text of a tool result; says so if the tool failed, for the protocol has no field."""
    return f"Error: {message.text}" if message.is_error else message.text


def _tool_parts(message: Message) -> tuple[TextPart | ImagePart, ...]:
    if not message.is_error:
        return message.parts
    images = [part for part in message.parts if isinstance(part, ImagePart)]
    return (TextPart(_words(message)), *images)


def _tool_message(
    message: Message, parts: Sequence[TextPart | ImagePart], urls: Mapping[str, bytes]
) -> Pieces:
    return _message({"role": "tool", "tool_call_id": message.tool_call_id}, parts, urls)


def _moved_images(
    moved: Sequence[tuple[Message, list[ImagePart]]], urls: Mapping[str, bytes]
) -> list[Pieces]:
    if not moved:
        return []
    parts: list[TextPart | ImagePart] = []
    for message, images in moved:
        parts += [TextPart(f"Pictures of {message.tool_name or 'a tool'}:"), *images]
    return [_message({"role": "user"}, parts, urls)]


def _message(
    fields: Mapping[str, str],
    parts: Sequence[TextPart | ImagePart],
    urls: Mapping[str, bytes],
) -> Pieces:
    if not any(isinstance(part, ImagePart) for part in parts):
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        return (_dump({**fields, "content": text}),)
    pieces = [_dump(fields)[:-1] + b',"content":[']
    for index, part in enumerate(parts):
        comma = b"," if index else b""
        if isinstance(part, TextPart):
            pieces.append(comma + _dump({"type": "text", "text": part.text}))
        else:
            pieces += [
                comma + b'{"type":"image_url","image_url":{"url":"',
                urls[part.image_id],
                b'"}}',
            ]
    pieces.append(b"]}")
    return tuple(pieces)


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
