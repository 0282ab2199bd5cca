"""Openings, continuations and notes."""

from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.images import image_id
from server.brain.interface import Message, TextPart, Tool
from server.brain.rendering.chat_renderer import ChatRenderer
from server.brain.tiny_model import TOKENS_PER_IMAGE
from tests.unit.server.brain.rendering.tiny import (
    LOOK,
    SYSTEM,
    picture,
    renderer,
    result,
    template,
    tokenizer,
    user,
)

TOKENIZER = tokenizer()


def text_of(token_ids: tuple[int, ...]) -> str:
    return TOKENIZER.decode(token_ids)


def test_d1_two_episodes_with_other_first_frames_share_system_prompt_and_tools() -> None:
    rendering = renderer()
    one, other = (
        rendering.opening([SYSTEM, user("pick the milk", picture(name))], [LOOK])
        for name in ("frame-a", "frame-b")
    )

    shared = one.token_ids.index(rendering.image_token_id)

    assert text_of(one.token_ids[:shared]).index("look") > 0
    assert one.token_ids[:shared] == other.token_ids[:shared]
    assert one.images != other.images


def test_d1_a_picture_in_the_system_message_is_refused() -> None:
    system = Message("system", (TextPart("You control a robot."), picture("frame")))

    with pytest.raises(InvalidArgumentError, match="first user message"):
        renderer().opening([system, user("go")], [LOOK])


def test_d2_a_template_that_may_do_without_the_date_is_given_none() -> None:
    dated = "{{- strftime_now('%d %b %Y') if strftime_now is defined else 'undated' }}" + template()

    opening = ChatRenderer(tokenizer(), dated).opening([SYSTEM, user("go")], [])

    assert text_of(opening.token_ids).startswith("undated<|im_start|>system")


def test_d2_a_template_that_wants_the_date_is_refused() -> None:
    dated = "{{- strftime_now('%d %b %Y') }}" + template()

    with pytest.raises(InvalidArgumentError, match="midnight"):
        ChatRenderer(tokenizer(), dated)


def test_a_continuation_is_what_the_template_writes_behind_the_answer() -> None:
    messages = [result("seen"), result("blocked", call_id="c00000001", is_error=True)]

    closed = renderer().continuation(messages, previous_closed=True)

    assert text_of(closed.token_ids) == (
        "\n<|im_start|>user\n<tool_response>\nseen\n</tool_response>\n<tool_response>\n"
        "Error: blocked\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_an_answer_that_was_cut_is_closed_first() -> None:
    rendering = renderer()

    cut = rendering.continuation([user("go on")], previous_closed=False).token_ids
    closed = rendering.continuation([user("go on")], previous_closed=True).token_ids

    assert cut == (rendering.end_token_id, *closed)


def test_without_thinking_the_empty_thought_is_part_of_the_prompt_and_stays() -> None:
    rendering = renderer(enable_thinking=False)

    written = text_of(rendering.continuation([user("go on")], True).token_ids)

    assert written.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert text_of(rendering.generation_prompt) == (
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_a_note_follows_an_opening_in_place_of_its_generation_prompt() -> None:
    assert text_of(renderer().note("3 left out").token_ids) == (
        "<|im_start|>user\n3 left out<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_that_wants_questions_and_answers_in_turn_gets_an_empty_answer_first() -> None:
    strict = (
        "{%- for m in messages %}"
        "{%- if loop.previtem is defined and loop.previtem.role == m.role %}"
        "{{- raise_exception('in turn') }}{%- endif %}{%- endfor %}" + template()
    )

    note = ChatRenderer(tokenizer(), strict).note("3 left out")

    assert text_of(note.token_ids) == (
        "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\n3 left out<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_each_picture_is_one_placeholder_and_counts_as_what_it_grows_to() -> None:
    written = renderer().continuation([result("two", picture("a"), picture("b"))], True)

    assert written.token_ids.count(renderer().image_token_id) == 2
    assert [image.image_id for image in written.images] == ["a", "b"]
    assert written.num_tokens == len(written.token_ids) + 2 * (TOKENS_PER_IMAGE - 1)


def test_d10_pictures_of_equal_bytes_and_other_shape_are_two_pictures() -> None:
    pixels = bytes(range(250)) * 54
    lying, standing = image_id(1, 30, 150, pixels), image_id(1, 150, 30, pixels)

    written = renderer().continuation(
        [user("two", picture(lying, 30, 150), picture(standing, 150, 30))], True
    )

    assert [(i.image_id, i.height, i.width) for i in written.images] == [
        (lying, 30, 150),
        (standing, 150, 30),
    ]
    assert lying != standing


def test_pictures_of_results_go_behind_them_where_the_template_takes_only_text_there() -> None:
    text_results = template().replace(
        "'\\n<tool_response>\\n' + body(message.content)",
        "'\\n<tool_response>\\n' + message.content",
    )
    rendering = ChatRenderer(
        tokenizer(), text_results, image_token="<image>", image_tokens=lambda *_: TOKENS_PER_IMAGE
    )

    written = rendering.continuation([result("seen", picture("a")), user("and?")], True)

    assert "</tool_response><|im_end|>\n<|im_start|>user\nPictures of look:<image>" in text_of(
        written.token_ids
    )
    assert [image.image_id for image in written.images] == ["a"]


@pytest.mark.parametrize(
    ("messages", "tools", "match"),
    [
        ([user("go"), SYSTEM], [], "stands first"),
        ([Message("assistant", (TextPart("yes"),))], [], "the model's own"),
        ([user("go")], [Tool("look", "", "{")], "not JSON"),
        ([user("go")], [Tool("look", "", "[]")], "not a JSON object"),
    ],
)
def test_what_cannot_stand_in_an_opening_is_refused(
    messages: list[Message], tools: list[Tool], match: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        renderer().opening(messages, tools)


def test_a_picture_for_a_model_without_pictures_is_refused() -> None:
    blind = ChatRenderer(tokenizer(), template())

    with pytest.raises(InvalidArgumentError, match="takes no pictures"):
        blind.opening([user("go", picture("a"))], [])


def test_tools_for_a_template_without_tools_are_refused() -> None:
    plain = (
        "{%- for m in messages %}"
        "{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
        "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    )

    with pytest.raises(InvalidArgumentError, match="writes no tools"):
        ChatRenderer(tokenizer(), plain).opening([user("go")], [LOOK])


def test_fields_of_a_schema_keep_their_order() -> None:
    opening = text_of(renderer().opening([user("go")], [LOOK]).token_ids)

    assert opening.index('"b": {"type": "integer"}') < opening.index('"a": {"type": "string"}')
