"""What is lost if a server keeps messages and renders the whole conversation at every turn.

The same conversation goes through the tiny model's template, which treats thinking and calls as
the templates of real models do, once append-only and once rendered again from what a parser made
of the answers. Only the first keeps what the cache holds.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.brain.rendering.chat_template import ChatTemplate
from server.brain.rendering.control_tokens import ControlTokens
from server.brain.rendering.interface import ContextPolicy
from server.brain.rendering.token_transcript import TokenTranscript
from tests.unit.server.brain.rendering.tiny import (
    LOOK,
    SYSTEM,
    renderer,
    result,
    template,
    tokenizer,
    user,
)

TOKENIZER = tokenizer()
TURNS = 20


class RenderedAgain:
    """The other way: messages are kept, and written anew at every turn."""

    def __init__(self) -> None:
        self._template = ChatTemplate(template(), {})
        self._control = ControlTokens(TOKENIZER)
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM.text},
            {"role": "user", "content": "pick the milk"},
        ]

    def prompt(self) -> list[int]:
        parameters = json.loads(LOOK.parameters_json)
        function = {"name": "look", "description": LOOK.description, "parameters": parameters}
        tools = [{"type": "function", "function": function}]
        return list(self._control.encode(self._template.render(self.messages, tools)))


def kept_share(answer: str, message: dict[str, Any], follow_up: str) -> tuple[float, float]:
    """Share of the last prompt and output that the next prompt begins with: ours, and the other.

    Of the worst turn of TURNS turns with the same answer.
    """
    ours, other = TokenTranscript(renderer(), ContextPolicy()), RenderedAgain()
    output = [*TOKENIZER.encode(answer), renderer().end_token_id]
    new = [SYSTEM, user("pick the milk")]
    worst_ours = worst_other = 1.0
    history: list[int] = []
    other_history: list[int] = []
    for turn in range(TURNS):
        draft = ours.draft(new, [LOOK])
        other_prompt = other.prompt()
        if turn:
            worst_ours = min(worst_ours, common(history, draft.token_ids) / len(history))
            kept = common(other_history, other_prompt) / len(other_history)
            worst_other = min(worst_other, kept)
        history = [*draft.token_ids, *output]
        other_history = [*other_prompt, *output]
        ours.commit(draft, output)
        new = [result(follow_up)] if message.get("tool_calls") else [user(follow_up)]
        role = "tool" if message.get("tool_calls") else "user"
        other.messages += [message, {"role": role, "content": follow_up}]
    return worst_ours, worst_other


def common(left: Any, right: Any) -> int:
    count = 0
    for one, another in zip(left, right):
        if one != another:
            break
        count += 1
    return count


@pytest.mark.parametrize("arguments", ['{"b":1,"a":"é 拿"}', '{"b": 1,  "a": "é"}', '{ "a": "x" }'])
def test_d3_arguments_as_the_model_wrote_them_stay_and_would_be_written_anew(
    arguments: str,
) -> None:
    answer = f'<tool_call>\n{{"name": "look", "arguments": {arguments}}}\n</tool_call>'
    function = {"name": "look", "arguments": json.loads(arguments)}
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}

    ours, rendered_again = kept_share(answer, message, "seen")

    assert ours == 1.0
    assert rendered_again < 1.0


def test_d4_thinking_stays_as_it_was_and_would_be_taken_out() -> None:
    answer = "<think>\nThe milk is on the left.\n</think>\n\nI see it."
    message = {"role": "assistant", "content": answer}

    ours, rendered_again = kept_share(answer, message, "go on")

    assert ours == 1.0
    assert rendered_again < 0.98


def test_d4_thinking_that_a_parser_took_apart_would_be_missing_from_the_prompt() -> None:
    answer = "<think>\nThe milk is on the left.\n</think>\n\nI see it."
    message = {"role": "assistant", "content": "I see it.", "reasoning": "The milk is on the left."}

    ours, rendered_again = kept_share(answer, message, "go on")

    assert ours == 1.0
    assert rendered_again < 0.98


def test_d4_an_answer_of_thinking_alone_is_history_like_any_other() -> None:
    transcript = TokenTranscript(renderer(), ContextPolicy())
    thought = [*TOKENIZER.encode("<think>\nhm\n</think>"), renderer().end_token_id]
    first = transcript.draft([SYSTEM, user("go")], [LOOK])
    transcript.commit(first, thought)

    prompt = transcript.draft([user("Call one tool.")]).token_ids

    assert list(prompt[: len(first.token_ids) + len(thought)]) == [*first.token_ids, *thought]
