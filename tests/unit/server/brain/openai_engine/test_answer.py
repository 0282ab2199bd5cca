from __future__ import annotations

import json

import pytest

from robot_sdk.errors import BadModelOutputError, ContextLimitError
from server.brain.checks import MAX_TOOL_CALLS
from server.brain.interface import Reasoning, Text
from server.brain.openai_engine.answer import Answer
from tests.fakes.openai_endpoint import call, chunk


def fed(*chunks):
    answer = Answer()
    events = [event for made in chunks for event in answer.feed(json.dumps(made).encode())]
    return answer, events


def calls_of(*parts, turn_index=4, taken=()):
    answer, _ = fed(*(chunk({"tool_calls": [part]}) for part in parts))
    return [
        (made.tool_call_id, made.name, made.arguments_json)
        for made in answer.tool_calls(turn_index, taken)
    ]


def test_text_and_thinking_come_as_they_are_written():
    answer, events = fed(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "h"}),
        chunk({"reasoning_content": "m", "reasoning": "m"}),
        chunk({"content": "Yes", "reasoning_content": None}),
        chunk({"refusal": "."}),
        chunk({}, "stop"),
    )

    assert events == [Reasoning("h"), Reasoning("m"), Text("Yes"), Text(".")]
    assert (answer.text, answer.reasoning) == ("Yes.", "hm")
    assert answer.reasoning_field == "reasoning_content"
    answer.check_whole()


def test_other_choices_than_the_first_are_passed_over():
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}

    answer, events = fed(chunk({"content": "a"}), second, chunk({}, "stop"))

    assert events == [Text("a")]
    assert answer.finish_reason == "stop"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("tool_calls", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("abort", "aborted"),
    ],
)
def test_reasons_to_end_are_told_in_the_server_s_words(reason, finish):
    answer, _ = fed(chunk({}, reason))

    answer.check_whole()

    assert answer.finish_reason == finish


@pytest.mark.parametrize("reason", [None, "content_filter", "error"])
def test_an_answer_that_is_not_whole_is_refused(reason):
    answer, _ = fed(chunk({"content": "a"}, reason))

    with pytest.raises(BadModelOutputError):
        answer.check_whole()


def test_calls_in_parts_are_put_together_by_their_number():
    assert calls_of(
        call(0, "a", "grip", '{"x"'),
        call(1, "b", "look", ""),
        call(0, None, "", ": 1}"),
        call(1, "b", "", '{"y": 2}'),
    ) == [("a", "grip", '{"x": 1}'), ("b", "look", '{"y": 2}')]


def test_calls_without_numbers_or_with_equal_ones_are_told_apart():
    unnumbered = calls_of(
        call(None, "a", "grip", "{"), call(None, None, "", "}"), call(None, "b", "look", "{}")
    )
    equal = calls_of(call(0, "a", "grip", "{}"), call(0, "b", "look", "{}"))

    assert unnumbered == equal == [("a", "grip", "{}"), ("b", "look", "{}")]


def test_two_unnumbered_calls_without_ids_are_two_calls():
    assert calls_of(call(None, None, "grip", "{}"), call(None, None, "look", "{}")) == [
        ("call-4-0", "grip", "{}"),
        ("call-4-1", "look", "{}"),
    ]


def test_arguments_as_an_object_become_text_and_none_become_an_empty_object():
    assert calls_of(call(0, "a", "grip", {"b": 1, "a": "é"}), call(1, "b", "look", None)) == [
        ("a", "grip", '{"b": 1, "a": "é"}'),
        ("b", "look", "{}"),
    ]


def test_an_id_that_is_missing_or_taken_is_replaced_by_a_free_one():
    made = calls_of(
        call(0, "old", "a", "{}"),
        call(1, None, "b", "{}"),
        call(2, "new", "c", "{}"),
        taken={"old", "call-4-0"},
    )

    assert [call_id for call_id, _, _ in made] == ["call-4-0-1", "call-4-1", "new"]


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"3",
        b"[]",
        b"{}",
        b'{"choices": {}}',
        b'{"choices": [3]}',
        b"\xff",
        b'{"choices": [{"delta": 3}]}',
        b'{"choices": [{"delta": {"tool_calls": [3]}}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_chunk_is_refused(data):
    with pytest.raises(BadModelOutputError, match="no chunk"):
        Answer().feed(data)


def test_a_half_of_a_surrogate_pair_does_not_travel_on():
    _, events = fed(chunk({"content": "a\ud83d"}))

    assert events == [Text("a�")]


def test_an_error_in_the_stream_is_an_error_of_the_turn():
    with pytest.raises(BadModelOutputError, match="boom"):
        fed({"error": {"message": "boom"}})
    with pytest.raises(ContextLimitError):
        fed({"error": {"message": "x", "code": "context_length_exceeded"}})


def test_the_end_mark_ends_the_answer():
    answer = Answer()

    assert answer.feed(b" [DONE]") == []
    assert answer.is_done


@pytest.mark.parametrize("calls", [5, True, 1.5, "look", {"name": "look"}])
def test_tool_calls_that_are_no_list_are_no_chunk(calls):
    with pytest.raises(BadModelOutputError, match="no chunk"):
        fed(chunk({"tool_calls": calls}))


def test_half_a_surrogate_pair_in_arguments_that_come_as_an_object_is_replaced():
    part = {"index": 0, "id": "a", "function": {"name": "say", "arguments": {"text": "\ud800"}}}

    ((_, _, arguments),) = calls_of(part)

    assert json.loads(arguments) == {"text": "\ufffd"}


def test_an_answer_with_calls_without_end_is_given_up():
    calls = [{"index": index, "function": {"name": "look"}} for index in range(MAX_TOOL_CALLS + 1)]

    answer, _ = fed(chunk({"tool_calls": calls[:-1]}, "stop"))
    assert len(answer.tool_calls(0, ())) == MAX_TOOL_CALLS
    with pytest.raises(BadModelOutputError, match="too many tools"):
        fed(chunk({"tool_calls": calls}))
