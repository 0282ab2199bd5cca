"""Calls that a parser left out, and what is said about wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.brain.rendering.call_reading import ReadCall, problem_of, read_calls

START, END = "<tool_call>", "</tool_call>"
LOOK = ReadCall("look", "{}")


def block(body: str) -> str:
    return f"{START}\n{body}\n{END}"


def test_a_call_that_the_parser_left_out_is_put_back_in_its_place() -> None:
    text = block("garbage") + block('{"name": "look", "arguments": {}}') + START

    calls = read_calls(text, [LOOK], START, END)

    assert calls == [ReadCall("", "garbage"), LOOK, ReadCall("", "")]


def test_arguments_that_come_before_the_name_do_not_lend_their_name_to_the_call() -> None:
    body = '{"arguments": {"name": "finish", "arguments": {}}, "name": "look"}'

    calls = read_calls(block(body), [ReadCall("finish", "")], START, END)

    assert calls == [ReadCall("look", '{"name": "finish", "arguments": {}}')]


def test_arguments_stay_as_they_were_written() -> None:
    body = '{"name": "look", "arguments": {"b":1,  "a":"é 拿", "b": 2}}'

    calls = read_calls(block(body), [LOOK], START, END)

    assert calls == [ReadCall("look", '{"b":1,  "a":"é 拿", "b": 2}')]


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "look", "name": "move", "arguments": {}}',
        '{"name": "look", "arguments": {}, "extra": 1}',
        '{"name": 3, "arguments": {}}',
        '{"name": "look", "arguments": "{}"}',
        "[1]",
        "{",
    ],
)
def test_what_is_no_plain_call_is_left_to_the_parser(body: str) -> None:
    assert read_calls(block(body), [ReadCall("parsed", "{}")], START, END)[-1].name == "parsed"


def test_without_a_known_mark_the_parser_has_the_last_word() -> None:
    assert read_calls("anything", [LOOK], None, None) == [LOOK]


@given(st.text(), st.lists(st.builds(ReadCall, st.text(min_size=1), st.text()), max_size=3))
def test_no_text_and_no_parser_makes_it_fail_or_lose_a_call(
    text: str, parsed: list[ReadCall]
) -> None:
    calls = read_calls(f"a{START}{text}{END}", parsed, START, END)

    assert len(calls) >= max(1, len(parsed))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (LOOK, None),
        (ReadCall("look", ""), None),
        (ReadCall("", "junk"), "could not be read"),
        (ReadCall("fly", "{}"), "no tool 'fly'"),
        (ReadCall("look", '{"a": '), "not a JSON object"),
        (ReadCall("look", "[]"), "not a JSON object"),
    ],
)
def test_d9_what_is_wrong_with_a_call_is_said_in_words(call: ReadCall, problem: str | None) -> None:
    said = problem_of([call], ["look"], "stop")

    assert said is None if problem is None else problem in (said or "")


def test_d9_calls_of_an_answer_that_was_cut_are_a_problem_whatever_they_look_like() -> None:
    assert "cut" in (problem_of([LOOK], ["look"], "length") or "")
    assert problem_of([], ["look"], "length") is None


def test_a_call_that_spells_half_a_surrogate_pair_comes_back_as_unreadable() -> None:
    half = '{"name": "look\\ud800", "arguments": {"a": "\\ud800"}}'

    calls = read_calls(block(half), [], START, END)

    assert calls == [ReadCall("", '{"a": "\\ud800"}')]
    assert problem_of(calls, ["look"], "stop") == "a tool call could not be read"


def test_arguments_that_a_parser_gave_with_half_a_surrogate_pair_can_be_sent() -> None:
    calls = read_calls(START + "look", [ReadCall("look", '{"a": "\ud800"}')], START, END)

    assert calls == [ReadCall("look", '{"a": "?"}')]
