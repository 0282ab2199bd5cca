"""What a chat template does, found out by using it; and whether it can be used append-only.

Looks at nothing but what it writes for conversations of known texts, so it holds for any template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from server.brain.rendering.chat_template import ChatTemplate
from server.brain.rendering.control_tokens import ControlTokens
from server.brain.rendering.delta import ANSWER, QUESTION, USER, answer_dict, text_behind_answer

_SYSTEM = "SystemTextOfTheFront"
_NEW = "NewMessageThatFollows"
_TOOL = "NameOfTheOnlyTool"
_CALL_ID = "callid001"

_NEW_USER: dict[str, Any] = {"role": "user", "content": _NEW}
_NEW_RESULT: dict[str, Any] = {
    "role": "tool",
    "content": _NEW,
    "tool_call_id": _CALL_ID,
    "name": _TOOL,
}
_TOOL_DICT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": _TOOL,
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    },
}


@dataclass(frozen=True)
class TemplateFacts:
    """How a template writes.

    Attributes:
        close: Text of the control token that ends an answer.
        end_token_id: The same as a token.
        generation_prompt: The last tokens of every prompt.
        takes_tools: It writes tools, and results of calls.
        user_images: Pictures may stand in user messages.
        tool_images: Pictures may stand in results.
        behind_question: What is written for a user message behind another one, up to where the
            model begins to write; None: the template refuses that.
    """

    close: str
    end_token_id: int
    generation_prompt: tuple[int, ...]
    takes_tools: bool
    user_images: bool
    tool_images: bool
    behind_question: Callable[[dict[str, Any]], str] | None


def check_template(
    template: ChatTemplate, control: ControlTokens, image_token_id: int | None
) -> TemplateFacts:
    """Find out how a template writes.

    Raises:
        InvalidArgumentError: It cannot be used append-only. Names what it does.
    """
    generation_text = _generation_text(template, control)
    close, end_token_id = _close(template, control)
    _check_history_stays(template, close)
    takes_tools = _check_tools(template, close)
    facts = TemplateFacts(
        close=close,
        end_token_id=end_token_id,
        generation_prompt=control.encode(generation_text),
        takes_tools=takes_tools,
        user_images=_num_images(template, control, close, _NEW_USER, image_token_id) == 1,
        tool_images=takes_tools
        and _num_images(template, control, close, _NEW_RESULT, image_token_id) == 1,
        behind_question=_behind_question(template),
    )
    if image_token_id is not None and not facts.user_images:
        raise _unfit("writes no placeholder for a picture in a user message", "")
    return facts


def _generation_text(template: ChatTemplate, control: ControlTokens) -> str:
    without = template.render([USER], add_generation_prompt=False)
    with_prompt = template.render([USER])
    if not with_prompt.startswith(without) or with_prompt == without:
        raise _unfit("does not begin an answer behind the last message", with_prompt)
    if template.render([USER]) != with_prompt:
        raise _unfit("writes the same messages differently each time", with_prompt)
    text = with_prompt[len(without) :]
    if control.encode(with_prompt) != control.encode(without) + control.encode(text):
        raise _unfit("begins an answer in the middle of a token", with_prompt)
    return text


def _close(template: ChatTemplate, control: ControlTokens) -> tuple[str, int]:
    """The control token behind an answer, as text and as a token."""
    text = template.render([USER, answer_dict()], add_generation_prompt=False)
    if text.count(ANSWER) != 1:
        raise _unfit("does not write an answer once and as it is", text)
    behind = text[text.index(ANSWER) + len(ANSWER) :]
    token_ids = control.encode(behind)
    if not token_ids or token_ids[0] not in control.ids:
        raise _unfit("does not end an answer with a control token", text)
    for length in range(1, len(behind) + 1):
        if control.encode(behind[:length]) == token_ids[:1]:
            return behind[:length], token_ids[0]
    raise _unfit("does not end an answer with a control token", text)


def _check_history_stays(template: ChatTemplate, close: str) -> None:
    """Earlier messages are written as before when others follow, and never again."""
    opening = [*_front(template), USER]
    front = template.render(opening, add_generation_prompt=False)
    longer = template.render([*opening, answer_dict(), _NEW_USER])
    if not longer.startswith(front):
        raise _unfit("rewrites history: the first messages change when others follow", longer)
    behind = text_behind_answer(template, close, [_NEW_USER])
    if behind.count(_NEW) != 1 or QUESTION in behind:
        raise _unfit("rewrites history: a new message is not written once, and alone", behind)
    later = template.render([*opening, answer_dict(), _NEW_USER, answer_dict(), _NEW_USER])
    if not later.endswith(close + behind):
        raise _unfit("writes a message differently depending on those before it", later)


def _check_tools(template: ChatTemplate, close: str) -> bool:
    """Whether tools and results are written, and that tools stand in front."""
    opening = [*_front(template), USER]
    try:
        text = template.render(opening, [_TOOL_DICT])
        behind = text_behind_answer(template, close, [_NEW_RESULT])
    except InvalidArgumentError:
        return False
    if _TOOL not in text or behind.count(_NEW) != 1:
        return False
    if text.index(_TOOL) > text.index(QUESTION):
        raise _unfit(
            "writes tools behind the first question: no two episodes would share them", text
        )
    longer = template.render([*opening, answer_dict(), _NEW_USER], [_TOOL_DICT])
    if longer.find(_TOOL, longer.index(QUESTION)) >= 0:
        raise _unfit("rewrites history: tools move when messages follow", longer)
    try:
        two = [_NEW_RESULT, {**_NEW_RESULT, "tool_call_id": "callid002"}]
        behind = text_behind_answer(template, close, two)
    except InvalidArgumentError:
        return True  # a format with one call an answer
    if behind.count(_NEW) != 2:
        raise _unfit("does not write every result of an answer with two calls", behind)
    return True


def _front(template: ChatTemplate) -> list[dict[str, Any]]:
    """A system message, where the template takes one."""
    system = {"role": "system", "content": _SYSTEM}
    try:
        template.render([system, USER])
    except InvalidArgumentError:
        return []
    return [system]


def _num_images(
    template: ChatTemplate,
    control: ControlTokens,
    close: str,
    message: Mapping[str, Any],
    image_token_id: int | None,
) -> int:
    """Placeholders written for a message with one picture; 0 if it is refused."""
    if image_token_id is None:
        return 0
    parts = [{"type": "text", "text": _NEW}, {"type": "image"}]
    try:
        text = text_behind_answer(template, close, [{**message, "content": parts}])
    except InvalidArgumentError:
        return 0
    # A template without lists of parts writes them as Python would.
    return 0 if "'type'" in text else control.encode(text).count(image_token_id)


def _behind_question(template: ChatTemplate) -> Callable[[dict[str, Any]], str] | None:
    without = template.render([USER], add_generation_prompt=False)

    def behind(message: dict[str, Any]) -> str:
        return template.render([USER, message])[len(without) :]

    try:
        two = template.render([USER, _NEW_USER])
    except InvalidArgumentError:
        return None
    return behind if two.startswith(without) else None


def _unfit(does: str, written: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the chat template cannot be used append-only: it {does}",
        field="chat_template",
        value=written[-300:] or None,
        hint="set a chat template that writes each message once, in order",
    )
