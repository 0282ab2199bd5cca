"""A model's chat template: messages in, text out.

Templates are programs of the model's publisher. They run in jinja's sandbox and without a clock:
a date in the first lines of a prompt would change the prefix of every episode at midnight.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes
from jinja2.parser import Parser

from robot_sdk.errors import InvalidArgumentError


class ChatTemplate:
    """A compiled template.

    Args:
        source: Jinja text, as a tokenizer's `chat_template`.
        variables: What the template may ask for besides the messages: special tokens by their
            names (`bos_token`), and switches such as `enable_thinking`.

    Raises:
        InvalidArgumentError: Not a jinja template.
    """

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        self._variables = dict(variables)
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise InvalidArgumentError(
                f"the chat template cannot be compiled: {error}", field="chat_template"
            ) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """The text of a conversation.

        Raises:
            InvalidArgumentError: The template does not take these messages; says its reason.
        """
        try:
            return self._template.render(
                messages=messages,
                tools=tools or None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._variables,
            )
        except jinja2.UndefinedError as error:
            clock = "strftime_now" in str(error)
            raise InvalidArgumentError(
                f"the chat template asks for something that is not there: {error}",
                field="chat_template",
                hint="it wants today's date, which would change every prompt at midnight; set a "
                "chat template without it"
                if clock
                else "",
            ) from error
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise InvalidArgumentError(
                f"the chat template does not take these messages: {error}",
                field="messages",
                value=", ".join(str(message["role"]) for message in messages),
            ) from error


class _GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}` marks for training what the assistant wrote; it changes no text."""

    tags = {"generation"}  # noqa: RUF012  # jinja's own way to name them

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it; jinja's own filter escapes what HTML would read."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
