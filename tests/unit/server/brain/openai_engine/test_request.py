from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.messages import Sampling
from server.brain.interface import ImagePart, Message, StoredImage, TextPart, Tool, ToolCall
from server.brain.openai_engine.pictures import data_url
from server.brain.openai_engine.pieces import blocks, num_bytes
from server.brain.openai_engine.record import Draft, EpisodeRecord
from server.brain.openai_engine.request import (
    body,
    options_of,
    readable,
    render_answer,
    render_messages,
    render_tools,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
#: Equal bytes in two shapes, and a file.
PICTURES = {
    "wide": StoredImage(common_pb2.IMAGE_ENCODING_RGB8, 1, 2, b"abcdef"),
    "tall": StoredImage(common_pb2.IMAGE_ENCODING_RGB8, 2, 1, b"abcdef"),
    "file": StoredImage(common_pb2.IMAGE_ENCODING_JPEG, 9, 9, b"\xff\xd8 as it is"),
}
PARTS = st.lists(
    st.one_of(
        st.builds(TextPart, TEXTS),
        st.sampled_from([ImagePart(name, i.height, i.width) for name, i in PICTURES.items()]),
    ),
    max_size=3,
).map(tuple)
ARGUMENTS = st.one_of(
    st.just('{"b": 1,"a":"é 拿"}'), st.just('{"cut": "of'), st.just(""), st.just("[1]"), TEXTS
)
CALLS = st.lists(st.builds(ToolCall, TEXTS, TEXTS, ARGUMENTS), max_size=3).map(tuple)
NEW = st.lists(
    st.builds(
        Message, st.sampled_from(["user", "tool", "system"]), PARTS, TEXTS, TEXTS, st.booleans()
    ),
    min_size=1,
    max_size=3,
)
ANSWERS = st.tuples(TEXTS, TEXTS, st.sampled_from(["", "reasoning"]), CALLS)
SAMPLINGS = st.builds(
    Sampling, temperature=st.none() | st.floats(0, 2), seed=st.none() | st.integers()
)


@given(
    st.lists(st.tuples(NEW, ANSWERS, SAMPLINGS), min_size=1, max_size=5),
    st.sampled_from(["user", "tool"]),
)
def test_every_request_begins_with_the_last_one_and_its_answer(turns, tool_images):
    tools = render_tools([Tool("look", "é", '{ "type": "object" }')])
    record = EpisodeRecord()
    last_front = last_messages = None
    for index, (new, answer, sampling) in enumerate(turns):
        urls = {name: data_url(image, "png", 90) for name, image in PICTURES.items()}
        messages = tuple(render_messages(new, urls, tool_images))
        options = options_of(sampling, "max_tokens", True, {"top_k": 3})
        whole = b"".join(body("m", tools, [*record.messages, *messages], options))
        sent = json.loads(whole)

        if last_front is not None:
            assert whole.startswith(last_front)
            assert sent["messages"][: len(last_messages)] == last_messages
            assert sent["messages"][len(last_messages)]["role"] == "assistant"
        assert sent["stream"] is True
        assert list(sent)[:4] == ["model", "stream", "tools", "messages"]

        rest = json.dumps(options, ensure_ascii=False, separators=(",", ":")).encode()[1:]
        last_front = whole.removesuffix(b"]," + rest)
        assert last_front != whole
        last_messages = sent["messages"]
        record.draft = Draft(
            index, record.num_turn_messages + len(new), messages, urls, 0, render_answer(*answer)
        )
        record.commit(index)


@given(st.lists(st.binary(max_size=200_000), max_size=8))
def test_pieces_are_put_together_without_loss(pieces):
    assert b"".join(blocks(pieces)) == b"".join(pieces)
    assert num_bytes(blocks(pieces)) == num_bytes(pieces)


def test_d3_arguments_are_sent_back_as_the_very_text_that_came():
    arguments = '{"b":1,  "a":"\\u00e9 拿"}'

    (sent,) = render_answer("", "", "", [ToolCall("c", "grip", arguments)])

    assert json.loads(sent) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "grip", "arguments": arguments}}
        ],
    }


@pytest.mark.parametrize(
    "arguments", ['{"a": "cut', "", "[1]", "3", "null", "{} and more", "{" * 9999]
)
def test_d9_arguments_that_are_no_object_are_wrapped_in_one(arguments):
    assert json.loads(readable(arguments)) == {"unreadable_arguments": arguments}


def test_pictures_of_tools_follow_behind_all_tool_results_of_the_turn():
    picture = ImagePart("file", 9, 9)
    new = [
        Message("tool", (TextPart("seen"), picture), "1", "look"),
        Message("tool", (TextPart("held"),), "2", "grip", is_error=True),
        Message("user", (TextPart("go on"),)),
    ]
    urls = {"file": b"data:x"}

    moved = [json.loads(b"".join(m)) for m in render_messages(new, urls, "user")]
    kept = [json.loads(b"".join(m)) for m in render_messages(new, urls, "tool")]

    image = {"type": "image_url", "image_url": {"url": "data:x"}}
    assert [m["role"] for m in moved] == ["tool", "tool", "user", "user"]
    assert moved[1]["content"] == "Error: held"
    assert moved[2]["content"] == [{"type": "text", "text": "Pictures of look:"}, image]
    assert [m["role"] for m in kept] == ["tool", "tool", "user"]
    assert kept[0]["content"] == [{"type": "text", "text": "seen"}, image]


def test_a_schema_keeps_its_own_text_and_a_tool_without_one_takes_nothing():
    sent = render_tools([Tool("a", "", '{ "type":"object", "z":1, "a":2 }'), Tool("b", "", "")])

    assert b'{ "type":"object", "z":1, "a":2 }' in sent
    assert json.loads(sent)[1]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_every_tool_is_strict_where_that_is_asked_for():
    strict = json.loads(render_tools([Tool("a", "", "{}")], strict=True))
    plain = json.loads(render_tools([Tool("a", "", "{}")]))

    assert strict[0]["function"]["strict"] is True
    assert "strict" not in plain[0]["function"]


@pytest.mark.parametrize("schema", ["{", "[]", "3"])
def test_a_schema_that_is_no_object_is_refused_by_the_name_of_its_tool(schema):
    with pytest.raises(InvalidArgumentError, match="tool grip"):
        render_tools([Tool("grip", "", schema)])


def test_a_request_without_tools_and_options_is_whole():
    assert json.loads(b"".join(body("m", b"[]", [(b"1",), (b"2",)], {}))) == {
        "model": "m",
        "stream": True,
        "messages": [1, 2],
    }


def test_what_a_turn_asks_for_counts_more_than_the_configuration():
    options = options_of(
        Sampling(temperature=0.0, max_output_tokens=5),
        "max_completion_tokens",
        False,
        {"temperature": 1.0, "top_k": 2},
    )

    assert options == {"temperature": 0.0, "top_k": 2, "max_completion_tokens": 5}
