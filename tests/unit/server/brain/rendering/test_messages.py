"""Messages as templates read them."""

from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.brain.interface import Message, TextPart, Tool
from server.brain.rendering.messages import (
    MAX_SCHEMA_LEVELS,
    message_dict,
    tool_dict,
    with_pictures_behind_results,
)
from tests.unit.server.brain.rendering.tiny import picture, result, user


def content(message: Message) -> object:
    return message_dict(message, str)["content"]


def test_texts_side_by_side_become_one_and_pictures_stay_in_place() -> None:
    parts = (TextPart("a"), TextPart("b"), picture("p"), picture("q"), TextPart("c"))

    assert content(Message("user", parts)) == [
        {"type": "text", "text": "a\nb"},
        {"type": "image"},
        {"type": "image"},
        {"type": "text", "text": "c"},
    ]
    assert content(Message("user", parts[:2])) == "a\nb"
    assert content(Message("user", ())) == ""


def test_a_failed_tool_says_so_in_the_text() -> None:
    assert content(result("blocked", is_error=True)) == "Error: blocked"
    assert content(Message("tool", (picture("p"),), is_error=True)) == [
        {"type": "text", "text": "Error: "},
        {"type": "image"},
    ]


def test_a_result_names_its_call() -> None:
    fields = message_dict(result("seen", call_id="c00000007"), str)

    assert (fields["tool_call_id"], fields["name"]) == ("c00000007", "look")


def test_pictures_of_results_move_behind_the_last_of_them_and_nothing_is_lost() -> None:
    messages = [result("one", picture("a")), result("two", picture("b")), user("and?")]

    moved = with_pictures_behind_results(messages)

    assert [message.role for message in moved] == ["tool", "tool", "user", "user"]
    assert moved[2].parts == (
        TextPart("Pictures of look:"),
        picture("a"),
        TextPart("Pictures of look:"),
        picture("b"),
    )
    assert with_pictures_behind_results([result("one"), user("and?")]) == [
        result("one"),
        user("and?"),
    ]


@pytest.mark.parametrize(("opens", "closes"), [('{"a":', "}"), ('{"a":[', "]}")])
def test_a_schema_that_nests_too_deeply_is_refused(opens: str, closes: str) -> None:
    levels = len(closes)

    def schema(num_levels: int) -> Tool:
        return Tool("t", "", opens * (num_levels // levels) + "1" + closes * (num_levels // levels))

    tool_dict(schema(MAX_SCHEMA_LEVELS), lambda value: value)
    for num_levels in (MAX_SCHEMA_LEVELS + levels, 900):
        with pytest.raises(InvalidArgumentError, match="nest too deeply"):
            tool_dict(schema(num_levels), lambda value: value)
