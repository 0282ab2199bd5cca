"""Token counts by rule of thumb, for engines that have no tokenizer.

Text: its UTF-8 bytes divided by 4, rounded up. Picture: one token per 28 x 28 pixels, each side
rounded up, as Qwen2.5-VL merges its 14-pixel patches two by two. Counts made this way are marked
`estimated`.
"""

from __future__ import annotations

from collections.abc import Iterable

from server.brain.interface import ImagePart, Message, TextPart, Tool

_BYTES_PER_TOKEN = 4
_PIXELS_PER_TOKEN_SIDE = 28


def text_tokens(text: str) -> int:
    """Tokens of a text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def image_tokens(height: int, width: int) -> int:
    """Tokens of a picture of that size in pixels."""
    side = _PIXELS_PER_TOKEN_SIDE
    return -(-height // side) * -(-width // side)


def message_tokens(message: Message) -> int:
    """Tokens of all parts of a message, and of the tool calls it makes."""
    tokens = 0
    for part in message.parts:
        if isinstance(part, TextPart):
            tokens += text_tokens(part.text)
        else:
            tokens += image_tokens(part.height, part.width)
    return tokens + sum(
        text_tokens(c.name) + text_tokens(c.arguments_json) for c in message.tool_calls
    )


def tool_tokens(tools: Iterable[Tool]) -> int:
    """Tokens of a tool list."""
    return sum(
        text_tokens(t.name) + text_tokens(t.description) + text_tokens(t.parameters_json)
        for t in tools
    )


def num_images(messages: Iterable[Message]) -> int:
    return sum(isinstance(part, ImagePart) for m in messages for part in m.parts)
