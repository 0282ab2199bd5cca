"""Where an answer of the model ends in what a template writes.

A template writes whole conversations. What it would write behind an answer is found by letting it
write one with an answer of a text that we know, and cutting behind that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from server.brain.rendering.chat_template import ChatTemplate
from server.brain.rendering.messages import call_dict

#: Stands for the first question. Letters alone, so that no template changes it.
QUESTION = "QuestionThatStandsForTheFirst"
#: Stands for the answer whose end is looked for.
ANSWER = "AnswerWhoseEndIsLookedFor"

USER: dict[str, Any] = {"role": "user", "content": QUESTION}


def answer_dict(calls: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The known answer, with one call for each result that follows it.

    Its arguments repeat the known text: the last place where it stands is before the end of the
    answer, whatever order a template writes content and calls in.
    """
    answer: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if calls:
        answer["tool_calls"] = [
            call_dict(call["tool_call_id"], call["name"], {ANSWER: ANSWER}) for call in calls
        ]
    return answer


def text_behind_answer(
    template: ChatTemplate, close: str, new_messages: Sequence[dict[str, Any]]
) -> str:
    """What the template writes behind the end of an answer when `new_messages` follow it.

    Args:
        template: The model's.
        close: What ends an answer, without a line break behind it.
        new_messages: With texts escaped, so that `close` is not among them.

    Raises:
        InvalidArgumentError: The template does not take these messages.
    """
    results = [message for message in new_messages if message["role"] == "tool"]
    text = template.render([USER, answer_dict(results), *new_messages])
    start = text.rfind(ANSWER)
    end = text.find(close, start + len(ANSWER)) if start >= 0 else -1
    if end < 0:
        raise InvalidArgumentError(
            "the chat template does not end an answer before what follows it",
            field="chat_template",
            value=text[max(start, 0) :][:200],
        )
    return text[end + len(close) :]
