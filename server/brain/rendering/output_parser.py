"""Reads answers with vLLM's own parsers of thinking and tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robot_sdk.errors import (
    BadModelOutputError,
    InvalidArgumentError,
    MissingExtraError,
    nearest,
)
from server.brain.interface import FinishReason, Reasoning, Text, Tool, ToolCall
from server.brain.rendering.call_reading import ReadCall, problem_of, read_calls
from server.brain.rendering.interface import OutputParser, ParsedOutput
from server.brain.rendering.messages import tool_dict


class VllmOutputParsers:
    """Makes a parser for each turn.

    Args:
        tokenizer: The model's, a Hugging Face tokenizer.
        tool_parser: Name of vLLM's parser, for example "hermes"; "": calls are not read.
        reasoning_parser: Name of vLLM's parser, for example "qwen3"; "": thinking is text.
        generation_prompt: `Renderer.generation_prompt`: where it ends tells whether an answer
            starts in its thinking. Not the whole prompt, in which earlier answers ended theirs.
        template_variables: As given to the template (`enable_thinking`).

    Raises:
        InvalidArgumentError: No such parser, or not with this tokenizer.
        MissingExtraError: vLLM is not installed.
    """

    def __init__(
        self,
        tokenizer: Any,
        tool_parser: str,
        reasoning_parser: str,
        generation_prompt: Sequence[int],
        template_variables: Mapping[str, Any] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._generation_prompt = list(generation_prompt)
        self._variables = dict(template_variables or {})
        self._parser_class = _parser_class(tokenizer, tool_parser, reasoning_parser)

    def for_turn(self, tools: Sequence[Tool], turn_index: int) -> OutputParser:
        """See `OutputParsers`. The parser raises BadModelOutputError where vLLM's own fails."""
        parser = None
        if self._parser_class is not None:
            parser = self.vllm_parser(tools)
        names = [tool.name for tool in tools]
        request = chat_request(tools, "auto")
        return _TurnParser(parser, request, names, turn_index, self._generation_prompt)

    def vllm_parser(self, tools: Sequence[Tool]) -> Any:
        """VLLM's own parser object of a turn."""
        return self._parser_class(
            self._tokenizer, vllm_tools(tools), chat_template_kwargs=self._variables
        )


class _TurnParser:
    def __init__(
        self,
        parser: Any,
        request: Any,
        names: Sequence[str],
        turn_index: int,
        generation_prompt: list[int],
    ) -> None:
        self._parser = parser
        self._request = request
        self._names = names
        self._turn_index = turn_index
        self._generation_prompt = generation_prompt
        self._marks = _call_marks(None if parser is None else parser.tool_parser)
        self._raw: list[str] = []
        self._shown: list[Text | Reasoning] = []
        self._calls: dict[int, list[str]] = {}

    def feed(self, delta_text: str, delta_token_ids: Sequence[int]) -> list[Text | Reasoning]:
        self._raw.append(delta_text)
        if self._parser is None:
            return self._show([Text(delta_text)] if delta_text else [])
        return self._take(delta_text, list(delta_token_ids), finished=False)

    def finish(self, finish_reason: FinishReason) -> ParsedOutput:
        events: list[Text | Reasoning] = []
        calls: list[ReadCall] = []
        if self._parser is not None:
            events = self._take("", [], finished=True)
            events += self._held_back()
            calls = self._read_calls()
        return ParsedOutput(
            events=tuple(events),
            tool_calls=tuple(
                ToolCall(call_id(self._turn_index, index), call.name, call.arguments)
                for index, call in enumerate(calls)
            ),
            problem=problem_of(calls, self._names, finish_reason),
        )

    def _take(
        self, delta_text: str, delta_token_ids: list[int], finished: bool
    ) -> list[Text | Reasoning]:
        try:
            message = self._parser.parse_delta(
                delta_text,
                delta_token_ids,
                self._request,
                prompt_token_ids=self._generation_prompt,
                finished=finished,
            )
        except Exception as error:
            raise BadModelOutputError(
                f"vLLM's parser failed on the answer: {type(error).__name__}: {error}"
            ) from error
        if message is None:
            return []
        for delta in message.tool_calls or ():
            name_and_arguments = self._calls.setdefault(delta.index, ["", ""])
            if delta.function is not None:
                name_and_arguments[0] += delta.function.name or ""
                name_and_arguments[1] += delta.function.arguments or ""
        events: list[Text | Reasoning] = []
        if message.reasoning:
            events.append(Reasoning(message.reasoning))
        if message.content:
            events.append(Text(message.content))
        return self._show(events)

    def _show(self, events: list[Text | Reasoning]) -> list[Text | Reasoning]:
        self._shown += events
        return events

    def _read_calls(self) -> list[ReadCall]:
        calls = [ReadCall(name, arguments) for _, (name, arguments) in sorted(self._calls.items())]
        return read_calls(self._answer(), calls, *self._marks)

    def _answer(self) -> str:
        """The raw text behind the thinking."""
        raw = "".join(self._raw)
        thinking = "".join(event.text for event in self._shown if isinstance(event, Reasoning))
        before, _, behind = raw.partition(thinking) if thinking else (raw, "", "")
        return behind if thinking else before

    def _held_back(self) -> list[Text | Reasoning]:
        """Text that a parser kept in case it was the start of a call, which then never came."""
        start, _ = self._marks
        shown = "".join(event.text for event in self._shown if isinstance(event, Text))
        answer = self._answer()
        rest = answer[len(shown) :] if answer.startswith(shown) else ""
        held = bool(rest) and start is not None and start != rest and start.startswith(rest)
        return self._show([Text(rest)]) if held else []


def call_id(turn_index: int, index: int) -> str:
    """Unique in an episode, equal when a turn is run again. Nine characters, which is what the
    strictest templates want.
    """
    return f"c{turn_index:05d}{index:03d}"


def vllm_tools(tools: Sequence[Tool]) -> list[Any]:
    """Tools as vLLM's parsers and structural tags take them."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam

    return [
        ChatCompletionToolsParam.model_validate(tool_dict(tool, lambda value: value))
        for tool in tools
    ]


def chat_request(tools: Sequence[Tool], tool_choice: str) -> Any:
    """What vLLM's parsers read of a request."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    fields: dict[str, Any] = {"messages": [], "model": ""}
    if tools:
        fields.update(tools=vllm_tools(tools), tool_choice=tool_choice)
    return ChatCompletionRequest(**fields)


def _parser_class(tokenizer: Any, tool_parser: str, reasoning_parser: str) -> Any:
    try:
        from vllm.parser import ParserManager
        from vllm.reasoning import ReasoningParserManager
        from vllm.tool_parsers import ToolParserManager
    except ImportError as error:
        raise MissingExtraError(
            "reading tool calls needs vLLM", hint="pip install -e '.[vllm]'"
        ) from error
    _check_name("tool_parser", tool_parser, ToolParserManager.list_registered())
    _check_name("reasoning_parser", reasoning_parser, ReasoningParserManager.list_registered())
    try:
        return ParserManager.get_parser(
            tool_parser_name=tool_parser or None,
            reasoning_parser_name=reasoning_parser or None,
            enable_auto_tools=True,
            tokenizer=tokenizer,
        )
    except Exception as error:
        raise InvalidArgumentError(
            f"vLLM's parsers do not fit the model: {error}",
            field="tool_parser, reasoning_parser",
            value=f"{tool_parser or 'none'}, {reasoning_parser or 'none'}",
        ) from error


def _check_name(field: str, name: str, known: Sequence[str]) -> None:
    if name and name not in known:
        close = nearest(name, known, 1)
        raise InvalidArgumentError(
            "vLLM has no such parser",
            field=field,
            value=name,
            allowed=known,
            hint=f"did you mean {close[0]!r}?" if close else "",
        )


def _call_marks(tool_parser: Any) -> tuple[str | None, str | None]:
    """Texts with which a call starts and ends, as far as a parser tells them."""
    start = getattr(tool_parser, "tool_call_start_token", None)
    end = getattr(tool_parser, "tool_call_end_token", None)
    engine = getattr(tool_parser, "_parser_engine", None)
    if start is None and engine is not None:
        terminals = engine.parser_engine_config.terminals
        start, end = terminals.get("TOOL_START"), terminals.get("TOOL_END")
    return start, end
