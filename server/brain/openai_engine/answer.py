"""One streamed answer, put together from its chunks: pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from robot_sdk.errors import BadModelOutputError, RobotSdkError
from server.brain.checks import check_num_calls
from server.brain.interface import FinishReason, Reasoning, Text, ToolCall
from server.brain.openai_engine.refusals import error_in_stream
from server.brain.openai_engine.usage import ReportedUsage

_DONE = b"[DONE]"
#: Names under which endpoints stream the model's thinking.
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_CUT = ("length", "max_tokens")
_GIVEN_UP = ("abort", "aborted", "cancelled")


@dataclass
class _Call:
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """Takes the data of events, gives text and thinking as they come, and the rest at the end."""

    def __init__(self) -> None:
        self.usage = ReportedUsage()
        self.reasoning_field = ""
        self.is_done = False
        self._finish_reason: str | None = None
        self.call_bytes = 0
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def finish_reason(self) -> FinishReason:
        """Why the answer ended, once `check_whole` has passed."""
        if self._finish_reason in _CUT:
            return "length"
        return "aborted" if self._finish_reason in _GIVEN_UP else "stop"

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take one event.

        Raises:
            BadModelOutputError: It is no chunk of a chat completion.
            RobotSdkError: The endpoint reports an error in the stream.
        """
        if data.strip() == _DONE:
            self.is_done = True
            return []
        chunk = _parsed(data)
        failure = error_in_stream(chunk)
        if failure is not None:
            raise failure
        self.usage = self.usage.updated(chunk.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise _no_chunk(data)
        events: list[Text | Reasoning] = []
        for choice in choices:
            if not isinstance(choice, Mapping):
                raise _no_chunk(data)
            if choice.get("index", 0) not in (0, None):
                continue  # another choice than the one that was asked for
            events += self._delta(choice.get("delta"), data)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self._finish_reason = reason
        return events

    def check_whole(self) -> None:
        """Pass an answer that has come to its end.

        Raises:
            BadModelOutputError: The stream ended early, or the endpoint withheld the answer.
        """
        if self._finish_reason is None:
            raise BadModelOutputError(
                "the model endpoint ended its stream in the middle of the answer"
            )
        if self._finish_reason in ("content_filter", "error"):
            raise BadModelOutputError(
                "the model endpoint withheld the answer",
                field="finish_reason",
                value=self._finish_reason,
            )

    def tool_calls(self, turn_index: int, taken_ids: Collection[str]) -> tuple[ToolCall, ...]:
        """The calls, each with an id of its own in the whole episode.

        Args:
            turn_index: Makes new ids.
            taken_ids: Ids of earlier turns. An id that is missing or taken is replaced.

        Raises:
            BadModelOutputError: A call names no tool.
        """
        ids = set(taken_ids)
        calls = []
        for index, call in enumerate(self._calls):
            if not call.name:
                raise BadModelOutputError(
                    "the model endpoint sent a tool call without a name", field="tool_calls"
                )
            call_id = call.call_id
            if not call_id or call_id in ids:
                call_id = _free_id(f"call-{turn_index}-{index}", ids)
            ids.add(call_id)
            calls.append(ToolCall(call_id, call.name, "".join(call.arguments) or "{}"))
        return tuple(calls)

    def _delta(self, delta: Any, data: bytes) -> list[Text | Reasoning]:
        if delta is None:
            return []
        if not isinstance(delta, Mapping):
            raise _no_chunk(data)
        events: list[Text | Reasoning] = []
        name = self.reasoning_field or next((n for n in _REASONING_FIELDS if delta.get(n)), "")
        if name and (thought := _text(delta, name)):
            self.reasoning_field = name
            self._reasoning.append(thought)
            events.append(Reasoning(thought))
        for name in ("content", "refusal"):
            if text := _text(delta, name):
                self._text.append(text)
                events.append(Text(text))
        parts = delta.get("tool_calls") or ()
        if not isinstance(parts, (list, tuple)):
            raise _no_chunk(data)
        for part in parts:
            if not isinstance(part, Mapping):
                raise _no_chunk(data)
            self._call_delta(part)
        return events

    def _call_delta(self, part: Mapping[str, Any]) -> None:
        function = part.get("function")
        function = function if isinstance(function, Mapping) else {}
        call_id, name = _text(part, "id"), _text(function, "name")
        call = self._call_of(part.get("index"), call_id, name)
        call.call_id = call.call_id or call_id
        call.name = call.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(_sound(arguments))
        elif isinstance(arguments, Mapping):
            call.arguments.append(_sound(json.dumps(arguments, ensure_ascii=False)))
        self.call_bytes += len(call_id) + len(name) + sum(map(len, call.arguments[-1:]))

    def _call_of(self, index: Any, call_id: str, name: str) -> _Call:
        """The call that a delta continues, or a new one.

        Some endpoints number no call, or give all of them the same number: another id means
        another call then.
        """
        if type(index) is int:
            known = self._call_at.get(index)
        else:
            known = self._calls[-1] if self._calls and not name else None
            index = -1 - len(self._calls)
        if known is not None and not (call_id and known.call_id and call_id != known.call_id):
            return known
        call = _Call()
        self._calls.append(call)
        check_num_calls(len(self._calls))
        self._call_at[index] = call
        return call


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        raise _no_chunk(data) from None
    if not isinstance(chunk, dict):
        raise _no_chunk(data)
    return chunk


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return _sound(value) if isinstance(value, str) else ""


def _sound(text: str) -> str:
    """Text that can be sent on: halves of surrogate pairs are replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _free_id(wanted: str, taken: Collection[str]) -> str:
    number = 0
    name = wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _no_chunk(data: bytes) -> RobotSdkError:
    return BadModelOutputError(
        "the model endpoint sent something that is no chunk of a chat completion",
        value=data[:200].decode("utf-8", "replace"),
    )
