from __future__ import annotations

import struct

import numpy as np
import pytest

from robot_sdk.api.v1 import brain_pb2, common_pb2
from robot_sdk.errors import ContextLimitError, InvalidArgumentError
from robot_sdk.images import encode_image
from server.brain import transcript as transcript_module
from server.brain.interface import ToolCall
from server.brain.transcript import (
    MAX_NEW_MESSAGES,
    MAX_NEW_PIXELS,
    MAX_PARTS_PER_MESSAGE,
    MAX_PICTURE_PIXELS,
    Output,
    Transcript,
)


def user(text: str = "", image: np.ndarray | None = None) -> brain_pb2.Message:
    parts = [brain_pb2.ContentPart(text=text)] if text else []
    if image is not None:
        parts.append(brain_pb2.ContentPart(image=encode_image(image)))
    return brain_pb2.Message(role=brain_pb2.ROLE_USER, parts=parts)


ANSWER = Output("ok", "", ())


def test_a_draft_changes_nothing_until_it_is_appended() -> None:
    transcript = Transcript()

    draft = transcript.draft(0, [user("hello")], [])

    assert transcript.messages == ()
    transcript.append(draft, ANSWER)
    assert [m.role for m in transcript.messages] == ["user", "assistant"]


def test_history_is_append_only() -> None:
    transcript = Transcript()
    transcript.append(transcript.draft(0, [user("one")], []), ANSWER)
    before = transcript.messages

    transcript.append(transcript.draft(1, [user("two")], []), ANSWER)

    assert transcript.messages[: len(before)] == before


def test_bytes_of_a_picture_are_kept_once() -> None:
    transcript = Transcript()
    picture = np.zeros((28, 56, 3), np.uint8)
    for turn in range(3):
        draft = transcript.draft(turn, [user("look", picture)], [])
        usage = transcript.usage(draft, ANSWER)
        transcript.append(draft, ANSWER)

    assert transcript.image_bytes == picture.nbytes
    assert usage.num_images == 3


def test_a_known_picture_may_be_named_without_its_bytes() -> None:
    transcript = Transcript()
    message = user("look", np.zeros((28, 56, 3), np.uint8))
    transcript.append(transcript.draft(0, [message], []), ANSWER)
    message.parts[1].image.data = b""

    draft = transcript.draft(1, [message], [])

    assert draft.num_images == 1
    message.parts[1].image.image_id = "unknown"
    with pytest.raises(InvalidArgumentError, match="sent before"):
        transcript.draft(1, [message], [])


def test_d10_an_id_that_is_not_the_pictures_digest_is_refused() -> None:
    message = user("look", np.zeros((30, 150, 3), np.uint8))
    message.parts[1].image.image_id = encode_image(np.zeros((150, 30, 3), np.uint8)).image_id

    with pytest.raises(InvalidArgumentError, match="digest"):
        Transcript().draft(0, [message], [])


def test_a_picture_with_too_few_bytes_is_refused() -> None:
    message = user("look", np.zeros((4, 4, 3), np.uint8))
    message.parts[1].image.height = 5

    with pytest.raises(InvalidArgumentError, match="48 bytes"):
        Transcript().draft(0, [message], [])


def test_tokens_follow_the_documented_rule() -> None:
    transcript = Transcript()
    tools = [brain_pb2.ToolSpec(name="look", description="12345678", parameters_json="{}")]

    draft = transcript.draft(0, [user("12345", np.zeros((29, 56, 3), np.uint8))], tools)
    output = Output("1234", "12345", (ToolCall("call-0", "look", '{"a":1}'),))
    usage = transcript.usage(draft, output)

    # text ceil(5/4), picture 2 x 2, tool 1 + 2 + 1; answer 1 + 2 + 1 + 2
    assert usage.input_tokens == 2 + 4 + 4
    assert usage.output_tokens == 1 + 2 + 1 + 2
    assert usage.estimated
    assert usage.cached_tokens is None


def test_the_next_prompt_is_the_last_prompt_and_output_and_the_new_part() -> None:
    transcript = Transcript()
    draft = transcript.draft(0, [user("x" * 40)], [])
    first = transcript.usage(draft, ANSWER)
    transcript.append(draft, ANSWER)

    second = transcript.usage(transcript.draft(1, [user("y" * 8)], []), ANSWER)

    assert first.input_tokens is not None
    assert first.output_tokens is not None
    assert second.input_tokens == first.input_tokens + first.output_tokens + 2
    assert second.new_tokens == 2


def test_tools_come_in_the_first_turn_only() -> None:
    with pytest.raises(InvalidArgumentError, match="turn 0 only"):
        Transcript().draft(1, [user("x")], [brain_pb2.ToolSpec(name="late")])


def test_a_turn_without_news_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="new_messages"):
        Transcript().draft(0, [], [])


def test_the_parts_of_a_message_are_bounded() -> None:
    part = brain_pb2.ContentPart(text="")
    fits = brain_pb2.Message(role=brain_pb2.ROLE_USER, parts=[part] * MAX_PARTS_PER_MESSAGE)
    over = brain_pb2.Message(role=brain_pb2.ROLE_USER, parts=[part] * (MAX_PARTS_PER_MESSAGE + 1))

    Transcript().draft(0, [fits], [])
    with pytest.raises(InvalidArgumentError, match=r"new_messages\[1\].parts.*at most 1024"):
        Transcript().draft(0, [fits, over], [])


def test_the_new_messages_of_a_turn_are_bounded() -> None:
    Transcript().draft(0, [user("a")] * MAX_NEW_MESSAGES, [])
    with pytest.raises(InvalidArgumentError, match=r"new_messages.*at most 1024"):
        Transcript().draft(0, [user("a")] * (MAX_NEW_MESSAGES + 1), [])


def test_a_conversation_that_would_become_too_long_is_refused_and_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcript_module, "MAX_CONVERSATION_BYTES", 10_000)
    transcript = Transcript()
    transcript.append(transcript.draft(0, [user("a" * 4000)], []), Output("b" * 4000, "", ()))

    with pytest.raises(ContextLimitError, match="at most 10000 bytes"):
        transcript.draft(1, [user("c" * 4000)], [])

    transcript.append(transcript.draft(1, [user("c" * 400)], []), ANSWER)
    assert len(transcript.messages) == 4


def test_pictures_of_an_episode_are_bounded_and_a_known_one_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcript_module, "MAX_KEPT_PICTURE_BYTES", 3 * 28 * 28 * 3)
    transcript = Transcript()
    pictures = [np.full((28, 28, 3), shade, np.uint8) for shade in range(4)]
    for turn, picture in enumerate([*pictures[:3], pictures[0]]):
        transcript.append(transcript.draft(turn, [user("look", picture)], []), ANSWER)

    with pytest.raises(ContextLimitError, match="at most 7056 bytes of pictures"):
        transcript.draft(4, [user("look", pictures[3])], [])


def png_head(height: int, width: int, number: int = 0) -> brain_pb2.Message:
    """A PNG as far as its size: what says how much memory it becomes."""
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIII", 13, b"IHDR", width, height, number)
    image = common_pb2.Image(
        encoding=common_pb2.IMAGE_ENCODING_PNG, height=height, width=width, data=data
    )
    return brain_pb2.Message(role=brain_pb2.ROLE_USER, parts=[brain_pb2.ContentPart(image=image)])


def test_a_small_file_that_becomes_a_huge_picture_is_refused() -> None:
    Transcript().draft(0, [png_head(1, MAX_PICTURE_PIXELS)], [])
    with pytest.raises(InvalidArgumentError, match="too many pixels"):
        Transcript().draft(0, [png_head(1, MAX_PICTURE_PIXELS + 1)], [])


def test_the_pictures_of_one_turn_are_bounded_together_and_equal_ones_count_once() -> None:
    side = 4096
    fits = [png_head(side, side, number) for number in range(MAX_NEW_PIXELS // side**2)]
    Transcript().draft(0, [*fits, *fits], [])
    with pytest.raises(InvalidArgumentError, match="too many pixels"):
        Transcript().draft(0, [*fits, png_head(side, side, len(fits))], [])
