"""Small helpers for reading protobuf messages."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message


def optional(message: Message, field: str) -> Any:
    """The value of an `optional` field, None if the sender left it out. Unknown is not zero."""
    return getattr(message, field) if message.HasField(field) else None
