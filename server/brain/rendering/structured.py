"""Structured output that holds a model to valid tool calls, in its own format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from server.brain.interface import Tool
from server.brain.rendering.interface import ToolCallMode
from server.brain.rendering.output_parser import VllmOutputParsers, chat_request

#: Characters in a row: enough for how models write JSON, on one line or indented by two.
_MAX_WHITE_SPACE = 8


def structured_outputs(
    parsers: VllmOutputParsers, tools: Sequence[Tool], mode: ToolCallMode
) -> Any:
    """VLLM's `StructuredOutputsParams` for one turn; None: the model is left free.

    In mode "required" the answer is exactly one call whose arguments fit the tool's schema, and
    nothing else. In mode "auto" text is free, and a call that is started is one of these. Thinking
    comes before either, if the engine knows the reasoning parser too
    (`structured_outputs_config={"reasoning_parser": ...}`).

    Raises:
        InvalidArgumentError: vLLM knows no grammar for the format of this parser, or one of the
            schemas asks for what its grammars cannot do.
    """
    if mode == "off" or not tools:
        return None
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.tool_parsers.structural_tag_registry import limit_to_single_tool_call
    from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

    tool_parser = parsers.vllm_parser(tools).tool_parser
    tag = None
    if tool_parser is not None:
        tag = tool_parser.get_structural_tag(
            chat_request(tools, mode), strict_level=ToolStrictLevel.PARAMETER
        )
    if tag is None:
        raise InvalidArgumentError(
            "vLLM has no grammar for calls in the format of this tool parser",
            field="tool_calls",
            value=mode,
            allowed=["off", "auto and required with a parser such as hermes or qwen3_coder"],
        )
    grammar = limit_to_single_tool_call(tag).model_dump()
    _bound_white_space(grammar)
    params = StructuredOutputsParams(structural_tag=json.dumps(grammar))
    _check(params)
    return params


def _bound_white_space(node: Any) -> None:
    """JSON allows any amount of it between two tokens, and a model that is lost in it stays there
    until its answer is cut.
    """
    if isinstance(node, dict):
        if node.get("type") == "json_schema" and node.get("style") == "json":
            node["max_whitespace_cnt"] = _MAX_WHITE_SPACE
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            _bound_white_space(item)


def _check(params: Any) -> None:
    from vllm.exceptions import VLLMClientError
    from vllm.sampling_params import SamplingParams
    from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar

    try:
        validate_xgrammar_grammar(SamplingParams(structured_outputs=params))
    except (ValueError, VLLMClientError) as error:
        raise InvalidArgumentError(
            f"a tool's schema cannot be turned into a grammar: {error}", field="tools"
        ) from error
