"""Answers read with vLLM's own parsers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import pytest

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

from robot_sdk.errors import BadModelOutputError, InvalidArgumentError
from robot_sdk.tools import Range, ToolRegistry
from server.brain.interface import FinishReason, Reasoning, Text, Tool
from server.brain.rendering.interface import ParsedOutput
from server.brain.rendering.output_parser import VllmOutputParsers
from server.brain.rendering.structured import structured_outputs
from server.brain.tiny_model import write_tiny_text_model

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]

LOOK = Tool(
    "look",
    "Take a picture.",
    '{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer",'
    ' "minimum": 0, "maximum": 9}}, "required": ["a"], "additionalProperties": false}',
)
CALL = '<tool_call>\n{"name": "look", "arguments": {"b":1,"a":"x"}}\n</tool_call>'
CODER_CALL = (
    "<tool_call>\n<function=look>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"
)


@cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    with TemporaryDirectory() as folder:
        return AutoTokenizer.from_pretrained(write_tiny_text_model(Path(folder)))


@cache
def parsers(tool_parser: str = "hermes", reasoning_parser: str = "") -> VllmOutputParsers:
    prompt = tokenizer().encode("<|im_start|>assistant\n", add_special_tokens=False)
    return VllmOutputParsers(tokenizer(), tool_parser, reasoning_parser, prompt)


def read(
    made: VllmOutputParsers, answer: str, finish_reason: FinishReason = "stop", step: int = 1
) -> tuple[str, str, ParsedOutput]:
    """Text, thinking, and the end of an answer that comes a few tokens at a time."""
    parser = made.for_turn([LOOK], 3)
    ids = tokenizer().encode(answer, add_special_tokens=False)
    events = [
        event
        for start in range(0, len(ids), step)
        for event in parser.feed(
            tokenizer().decode(ids[start : start + step]), ids[start : start + step]
        )
    ]
    parsed = parser.finish(finish_reason)
    events += parsed.events
    text = "".join(event.text for event in events if isinstance(event, Text))
    thinking = "".join(event.text for event in events if isinstance(event, Reasoning))
    return text, thinking, parsed


def calls_of(parsed: ParsedOutput) -> list[tuple[str, str]]:
    return [(call.name, call.arguments_json) for call in parsed.tool_calls]


@pytest.fixture(params=[1, 7, 1000])
def step(request: pytest.FixtureRequest) -> Iterator[int]:
    return request.param


def test_text_thinking_and_calls_are_told_apart(step: int) -> None:
    answer = f"<think>\nhm\n</think>\n\nI look. {CALL}"

    text, thinking, parsed = read(parsers("hermes", "qwen3"), answer, step=step)

    assert text.strip() == "I look."
    assert thinking.strip() == "hm"
    assert calls_of(parsed) == [("look", '{"b":1,"a":"x"}')]
    assert parsed.problem is None


def test_ids_of_calls_are_unique_in_an_episode_and_equal_when_a_turn_runs_again() -> None:
    ids = [[call.tool_call_id for call in read(parsers(), CALL * 2)[2].tool_calls] for _ in "ab"]

    assert ids[0] == ids[1] == ["c00003000", "c00003001"]


def test_another_format_of_calls_is_read_by_its_own_parser(step: int) -> None:
    _, _, parsed = read(parsers("qwen3_coder", "qwen3"), f"</think>{CODER_CALL}", step=step)

    assert calls_of(parsed) == [("look", '{"a": "x"}')]


@pytest.mark.parametrize(
    ("answer", "calls", "problem"),
    [
        ('<tool_call>{"name":"look","arguments":{"a": "x', [("look", '{"a": "x')], "not a JSON"),
        ("<tool_call>\ngarbage\n</tool_call>", [("", "garbage")], "could not be read"),
        (f"<tool_call>{{}}</tool_call>{CALL}", [("", "{}"), ("look", '{"b":1,"a":"x"}')], "read"),
        ('<tool_call>{"name":"fly","arguments":{}}</tool_call>', [("fly", "{}")], "no tool 'fly'"),
        (f"{CALL} and then I rest", [("look", '{"b":1,"a":"x"}')], None),
        ("", [], None),
    ],
)
def test_d9_calls_that_are_wrong_come_out_as_they_are_with_the_problem(
    answer: str, calls: list[tuple[str, str]], problem: str | None
) -> None:
    _, _, parsed = read(parsers(), answer)

    assert calls_of(parsed) == calls
    assert parsed.problem is None if problem is None else problem in (parsed.problem or "")


def test_d9_a_call_that_was_cut_says_so() -> None:
    _, _, parsed = read(parsers(), CALL[:-30], "length")

    assert len(parsed.tool_calls) == 1
    assert "cut" in (parsed.problem or "")


@pytest.mark.parametrize("answer", ["ends with <", "ends with <tool_cal", "a <b> c"])
def test_text_that_looked_like_the_start_of_a_call_is_text_in_the_end(answer: str) -> None:
    assert read(parsers(), answer)[0] == answer


def test_d4_an_answer_that_is_all_thinking_has_no_text_and_no_call() -> None:
    text, thinking, parsed = read(parsers("hermes", "qwen3"), "<think>\nOn and on")

    assert (text, thinking.strip(), parsed.tool_calls) == ("", "On and on", ())


def test_a_parser_that_fails_fails_the_turn_and_not_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parser = parsers().for_turn([LOOK], 0)
    monkeypatch.setattr(parser._parser, "parse_delta", lambda *_, **__: 1 / 0)

    with pytest.raises(BadModelOutputError, match="ZeroDivisionError"):
        parser.feed("x", [1])


def test_without_parsers_everything_is_text() -> None:
    text, thinking, parsed = read(parsers("", ""), f"<think>x</think>{CALL}")

    assert (text, thinking, parsed.tool_calls) == (f"<think>x</think>{CALL}", "", ())


def test_a_parser_that_vllm_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match="did you mean 'hermes'"):
        VllmOutputParsers(tokenizer(), "hermess", "", [])


def accepts(params: Any, text: str) -> bool:
    """Whether a grammar takes a text as a whole answer."""
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer())
    grammar = xgrammar.Grammar.from_structural_tag(params.structural_tag)
    compiled = xgrammar.GrammarCompiler(info).compile_grammar(grammar)
    matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
    return matcher.accept_string(text) and matcher.is_terminated()


GOOD = '<tool_call>\n{"name": "look", "arguments": {"a": "x", "b": 1}}\n</tool_call>'


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        (GOOD, True),
        (GOOD + GOOD, False),
        ("I look. " + GOOD, False),
        (GOOD.replace("look", "fly"), False),
        (GOOD.replace('"b": 1', '"b": 10'), False),
        (GOOD.replace('"b": 1', '"c": 1'), False),
        (GOOD.replace('"a": "x", ', ""), False),
        (GOOD.replace('{"a"', '{\n  "a"'), True),
        (GOOD.replace('{"a"', "{" + " " * 20 + '"a"'), False),
    ],
)
def test_required_takes_exactly_one_call_that_fits_its_schema(answer: str, fits: bool) -> None:
    assert accepts(structured_outputs(parsers(), [LOOK], "required"), answer) is fits


@pytest.mark.parametrize("schema", ['{"$ref":"#/nowhere"}', '{"type":"banana"}'])
def test_a_schema_without_a_grammar_is_refused_with_the_field_named(schema: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be turned into a grammar") as raised:
        structured_outputs(parsers(), [Tool("t", "", schema)], "required")
    assert raised.value.field == "tools"


def test_a_call_that_the_grammar_takes_is_read_by_the_parser() -> None:
    assert calls_of(read(parsers(), GOOD)[2]) == [("look", '{"a": "x", "b": 1}')]


def test_auto_leaves_text_free_and_off_leaves_everything_free() -> None:
    import xgrammar

    auto = structured_outputs(parsers(), [LOOK], "auto")
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer())
    grammar = xgrammar.Grammar.from_structural_tag(auto.structural_tag)
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(info).compile_grammar(grammar))

    assert matcher.accept_string("I look. <tool_call>")
    assert not matcher.accept_string('{"name": "fly"')
    assert structured_outputs(parsers(), [LOOK], "off") is None
    assert structured_outputs(parsers(), [], "required") is None


def every_kind_of_argument(
    x: Annotated[float, Range(-0.5, 0.5, unit="m")],
    count: Annotated[int, Range(low=1)],
    name: Annotated[str, Range(1, 20)],
    command: Literal["open", "close"],
    path: list[Annotated[float, Range(0, 1)]],
    point: tuple[float, float, float],
    fast: bool = False,
    gain: Annotated[float | None, Range(0, 2)] = 1.0,
) -> None:
    """Take all of them."""


def test_every_kind_of_argument_of_the_sdks_tools_becomes_a_grammar() -> None:
    spec = ToolRegistry(every_kind_of_argument).specs[0]
    sdk_tool = Tool(spec.name, spec.description, json.dumps(spec.parameters))
    arguments = (
        '{"x": 0.25, "count": 3, "name": "milk", "command": "open", "path": [0.5],'
        ' "point": [1, 2.5, 3], "fast": true, "gain": null}'
    )
    call = f'<tool_call>\n{{"name": "{spec.name}", "arguments": {arguments}}}\n</tool_call>'

    params = structured_outputs(parsers(), [sdk_tool], "required")

    assert accepts(params, call)
    assert not accepts(params, call.replace("0.25", "0.75"))


def test_a_parser_without_a_grammar_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no grammar"):
        structured_outputs(parsers("pythonic"), [LOOK], "required")
