"""Finds the calls in an answer that a tool parser could not read, and says what is wrong.

A parser of tool calls leaves out, without a word, what it cannot read. The model would never learn
that its call was not run. What starts like a call therefore counts as one, readable or not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from server.brain.interface import FinishReason

#: Of a call that cannot be read; no robot reads more of it either.
MAX_RAW_CHARS = 65_536


@dataclass(frozen=True)
class ReadCall:
    """A call as a parser gave it. Name "" stands for one that could not be read."""

    name: str
    arguments: str


def read_calls(
    text: str, parsed: Sequence[ReadCall], start: str | None, end: str | None
) -> list[ReadCall]:
    """The parser's calls, and in their places those that it did not give.

    Args:
        text: The answer behind its thinking.
        parsed: What the parser read, its last call possibly incomplete.
        start: Text with which a call starts; None: unknown, so that nothing can be found.
        end: Text with which it ends.
    """
    if not start:
        return list(parsed)
    calls: list[ReadCall] = []
    unused = list(parsed)
    for rest in text.split(start)[1:]:
        block = (rest.split(end)[0] if end else rest).strip()
        call = None
        if unused and unused[0].name in rest:
            call = unused.pop(0)
        calls.append(_json_call(block) or call or ReadCall("", block[:MAX_RAW_CHARS]))
    return [_sendable(call) for call in calls + unused]


def _sendable(call: ReadCall) -> ReadCall:
    """JSON may spell half of a surrogate pair, and parsers read it; no message can hold one.

    No tool has such a name, so the call counts as one that could not be read.
    """
    arguments = call.arguments.encode("utf-8", "replace").decode()
    name = call.name if _is_sound(call.name) else ""
    return ReadCall(name, arguments)


def _is_sound(text: str) -> bool:
    return text.encode("utf-8", "replace").decode() == text


def problem_of(
    calls: Sequence[ReadCall], names: Collection[str], finish_reason: FinishReason
) -> str | None:
    """What is wrong with the first wrong call, in words; None if nothing is.

    Whether arguments fit a tool is for the robot to say, which has the tools.
    """
    if finish_reason == "length" and calls:
        return "the answer was cut at its limit; its calls may be incomplete"
    for call in calls:
        if not call.name:
            return "a tool call could not be read"
        if call.name not in names:
            return f"there is no tool {call.name!r}"
        if not is_json_object(call.arguments):
            return f"the arguments of {call.name} are not a JSON object"
    return None


def is_json_object(text: str) -> bool:
    """Whether `text` is one JSON object. An empty text stands for no arguments."""
    if not text.strip():
        return True
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _json_call(block: str) -> ReadCall | None:
    """A call that is one JSON object: its name, and its arguments as they were written.

    Parsers that stream look for the first thing that resembles a name, which may be an argument if
    the arguments come first.
    """
    members = _members(block)
    if members is None or set(members) - {"name", "arguments", "parameters"}:
        return None
    name = members.get("name", "")
    arguments = members.get("arguments", members.get("parameters", ""))
    if not name.startswith('"') or (arguments and not arguments.startswith("{")):
        return None
    return ReadCall(json.loads(name), arguments)


def _members(text: str) -> dict[str, str] | None:
    """Fields of a JSON object by name, values as they are written; None if it is none."""
    try:
        if not isinstance(json.loads(text), dict):
            return None
        decode = json.JSONDecoder().raw_decode
        members: dict[str, str] = {}
        position = text.index("{") + 1
        while text[position:].lstrip()[:1] == '"':
            position = text.index('"', position)
            name, position = decode(text, position)
            position = text.index(":", position) + 1
            position += len(text[position:]) - len(text[position:].lstrip())
            _, stop = decode(text, position)
            if name in members:
                return None
            members[name] = text[position:stop]
            position = len(text) - len(text[stop:].lstrip(" \t\r\n,"))
    except (ValueError, RecursionError):
        return None
    return members
