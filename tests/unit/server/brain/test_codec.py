from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.api.v1 import brain_pb2
from robot_sdk.images import encode_image
from server.brain import interface
from server.brain.codec import decode_turn, encode_turn
from server.brain.interface import (
    ImagePart,
    Message,
    Sampling,
    TextPart,
    Tool,
    ToolCall,
    Turn,
)
from server.brain.transcript import Output, Transcript

# What gRPC and the checks of an engine's output let through: any text but lone surrogates.
_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_parts = st.one_of(
    st.builds(TextPart, _texts),
    st.builds(ImagePart, _texts, st.integers(1, 999), st.integers(1, 999), _texts),
)
_calls = st.builds(ToolCall, _texts, _texts, _texts)
_messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(_parts, max_size=3).map(tuple),
    _texts,
    _texts,
    st.booleans(),
    st.lists(_calls, max_size=2).map(tuple),
)
_turns = st.builds(
    Turn,
    _texts,
    st.integers(0, 1000),
    st.lists(_messages, max_size=4).map(tuple),
    st.lists(st.builds(Tool, _texts, _texts, _texts), max_size=2).map(tuple),
    st.builds(Sampling, st.none() | st.floats(0, 2), st.none(), st.none() | st.integers(0, 99)),
    st.none() | st.floats(0, 10),
)


@given(_turns)
def test_a_turn_arrives_in_the_worker_as_it_was(turn: Turn) -> None:
    assert decode_turn(encode_turn(turn)) == turn


def test_what_was_said_before_is_not_encoded_again_at_every_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transcript = Transcript()
    picture = brain_pb2.ContentPart(image=encode_image(np.zeros((4, 4, 3), np.uint8)))
    message = brain_pb2.Message(
        role=brain_pb2.ROLE_USER, parts=[brain_pb2.ContentPart(text="look"), picture]
    )
    tool = brain_pb2.ToolSpec(name="look", description="", parameters_json="{}")
    transcript.append(transcript.draft(0, [message], [tool]), Output("I see", "", ()))
    draft = transcript.draft(1, [message], [])
    turn = Turn("episode", 1, (*transcript.messages, *draft.messages), transcript.tools, Sampling())

    def again(_: dict[str, Any]) -> bytes:
        raise AssertionError("a message or tool was encoded after its draft or commit")

    monkeypatch.setattr(interface, "_json", again)

    assert decode_turn(encode_turn(turn)) == turn
