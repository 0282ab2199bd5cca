"""Messages to tokens with the model's own chat template, new messages only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from server.brain.interface import Message, TextPart, Tool
from server.brain.rendering.chat_template import ChatTemplate
from server.brain.rendering.control_tokens import ControlTokens, Tokenizer
from server.brain.rendering.delta import text_behind_answer
from server.brain.rendering.image_tokens import ImageTokens
from server.brain.rendering.interface import ImageRef, Rendered
from server.brain.rendering.messages import (
    message_dict,
    pictures,
    tool_dict,
    with_pictures_behind_results,
)
from server.brain.rendering.template_check import TemplateFacts, check_template


class ChatRenderer:
    """A `Renderer` over a Hugging Face tokenizer and its jinja template.

    Args:
        tokenizer: The model's.
        chat_template: Jinja text; the tokenizer's own is `tokenizer.chat_template`.
        image_token: Text of the placeholder of a picture, for example "<|image_pad|>". None: the
            model takes no pictures.
        image_tokens: Tokens that the placeholder of a picture grows to. Wanted with `image_token`.
        other_media_tokens: Texts of placeholders of other media, which the model must not write.
        variables: Template variables: special tokens by name, switches (`enable_thinking`).

    Raises:
        InvalidArgumentError: The template cannot be used append-only; names what it does.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        chat_template: str,
        *,
        image_token: str | None = None,
        image_tokens: ImageTokens | None = None,
        other_media_tokens: Sequence[str] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        self._control = ControlTokens(tokenizer)
        self._template = ChatTemplate(chat_template, variables or {})
        self._image_tokens = image_tokens
        vocab = tokenizer.get_added_vocab()
        self._image_token_id = None if image_token is None else _token_id(vocab, image_token)
        media = [text for text in (image_token, *other_media_tokens) if text is not None]
        self._forbidden = frozenset(vocab[text] for text in media if text in vocab)
        self._facts: TemplateFacts = check_template(
            self._template, self._control, self._image_token_id
        )

    @property
    def end_token_id(self) -> int:
        return self._facts.end_token_id

    @property
    def image_token_id(self) -> int | None:
        return self._image_token_id

    @property
    def forbidden_output_ids(self) -> frozenset[int]:
        return self._forbidden

    @property
    def generation_prompt(self) -> tuple[int, ...]:
        """The last tokens of every prompt: where the model begins to write."""
        return self._facts.generation_prompt

    @property
    def takes_images(self) -> bool:
        """Whether messages may hold pictures."""
        return self._facts.user_images

    def opening(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Rendered:
        self._check(messages)
        tool_dicts = [tool_dict(tool, self._control.escape_json) for tool in tools]
        if tools and not self._facts.takes_tools:
            raise InvalidArgumentError(
                "the model's chat template writes no tools",
                field="tools",
                value=f"{len(tools)} tools",
                hint="give the server a chat template with tools",
            )
        for index, message in enumerate(messages):
            if message.role == "system" and index > 0:
                raise InvalidArgumentError(
                    "the system message stands first, once",
                    field=f"new_messages[{index}].role",
                    value="system",
                )
        text = self._template.render(self._dicts(messages), tool_dicts)
        return self._rendered(text, messages)

    def continuation(self, new_messages: Sequence[Message], previous_closed: bool) -> Rendered:
        self._check(new_messages)
        facts = self._facts
        text = text_behind_answer(self._template, facts.close, self._dicts(new_messages))
        return self._rendered(text if previous_closed else facts.close + text, new_messages)

    def note(self, text: str) -> Rendered:
        message = Message("user", (TextPart(text),))
        behind = self._facts.behind_question
        if behind is not None:
            return self._rendered(behind(message_dict(message, self._control.escape)), ())
        # The template wants questions and answers in turn: an empty answer stands between.
        follows = self.continuation((message,), previous_closed=False)
        return Rendered(self._facts.generation_prompt + follows.token_ids)

    def _dicts(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        shown = messages if self._facts.tool_images else with_pictures_behind_results(messages)
        return [message_dict(message, self._control.escape) for message in shown]

    def _rendered(self, text: str, messages: Sequence[Message]) -> Rendered:
        token_ids = self._control.encode(text)
        images: list[ImageRef] = []
        if self._image_tokens is not None:
            shown = messages if self._facts.tool_images else with_pictures_behind_results(messages)
            images = [
                ImageRef(
                    part.image_id,
                    part.height,
                    part.width,
                    self._image_tokens(part.height, part.width),
                )
                for part in pictures(shown)
            ]
        placeholders = 0 if self._image_token_id is None else token_ids.count(self._image_token_id)
        if placeholders != len(images):
            raise InvalidArgumentError(
                "the chat template does not write one placeholder for each picture",
                field="chat_template",
                value=f"{placeholders} placeholders for {len(images)} pictures",
            )
        return Rendered(token_ids, tuple(images))

    def _check(self, messages: Sequence[Message]) -> None:
        for index, message in enumerate(messages):
            if message.role == "assistant":
                raise InvalidArgumentError(
                    "answers are the model's own and are not given to it",
                    field=f"new_messages[{index}].role",
                    value="assistant",
                )
            num_pictures = len(pictures([message]))
            if not num_pictures:
                continue
            if message.role == "system":
                raise InvalidArgumentError(
                    "the system message holds a picture; text that all episodes share stands "
                    "first, and a picture in it would keep their prompts from sharing anything",
                    field=f"new_messages[{index}]",
                    value=f"{num_pictures} pictures",
                    hint="put the picture into the first user message, behind its text",
                )
            if not self.takes_images:
                raise InvalidArgumentError(
                    "the model takes no pictures",
                    field=f"new_messages[{index}]",
                    value=f"{num_pictures} pictures",
                )


def _token_id(vocab: Mapping[str, int], text: str) -> int:
    if text not in vocab:
        raise InvalidArgumentError(
            "the tokenizer does not have the placeholder of a picture",
            field="image_token",
            value=text,
            allowed=sorted(vocab),
        )
    return vocab[text]
