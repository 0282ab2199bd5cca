from __future__ import annotations

from typing import Any

import pytest

from robot_sdk.errors import BadModelOutputError
from server.brain.checks import check_event, event_bytes
from server.brain.interface import Finished, Reasoning, Text, Timing, TokenUsage, ToolCall


@pytest.mark.parametrize(
    "event",
    [
        Text(""),
        Reasoning("拿 🤖"),
        ToolCall("1", "drive", '{"steps": 3}'),
        Finished("length", TokenUsage(input_tokens=0, num_images=2), Timing(prefill_s=0)),
        Finished(),
    ],
)
def test_what_the_interface_promises_passes(event: Any) -> None:
    check_event(event)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (Text(5), "text"),  # type: ignore[arg-type]
        (Text("\ud800"), "text"),
        (Reasoning(None), "text"),  # type: ignore[arg-type]
        (ToolCall(1, "drive", "{}"), "tool_call_id"),  # type: ignore[arg-type]
        (ToolCall("1", "drive", {"steps": 3}), "arguments_json"),  # type: ignore[arg-type]
        (ToolCall("1", "drive", '"\ud800"'), "arguments_json"),
        (Finished("tool_calls"), "finish_reason"),  # type: ignore[arg-type]
        (Finished("stop", "many"), "usage"),  # type: ignore[arg-type]
        (Finished("stop", TokenUsage(input_tokens=-1)), "input_tokens"),
        (Finished("stop", TokenUsage(output_tokens=1.5)), "output_tokens"),  # type: ignore[arg-type]
        (Finished("stop", None, Timing(decode_s=float("nan"))), "decode_s"),
        (Finished("stop", None, Timing(prefill_s="x")), "prefill_s"),  # type: ignore[arg-type]
        ("hello", "event"),
    ],
)
def test_what_could_not_be_sent_is_refused_by_name(event: Any, field: str) -> None:
    with pytest.raises(BadModelOutputError, match=field) as caught:
        check_event(event)

    str(caught.value).encode()


def test_tool_calls_count_as_output_too() -> None:
    assert event_bytes(ToolCall("12", "abc", "{...}")) == 10
    assert event_bytes(Text("four")) == 4
    assert event_bytes(Finished()) == 0
