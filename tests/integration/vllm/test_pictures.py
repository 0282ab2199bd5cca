"""Conversations that grow by a picture a turn, on a real engine with a tiny model that sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.api.v1 import brain_pb2, common_pb2
from robot_sdk.images import image_id
from server.brain.tiny_model import TOKENS_PER_IMAGE
from tests.integration.server.harness import Client, Server, user
from tests.integration.vllm.serving import (
    BLOCK_TOKENS,
    LOOK,
    admitted,
    calls_of,
    counters,
    done_of,
    keeps_prefix,
    serving,
    toml,
    totals,
)

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

#: A conversation with more is made shorter.
MAX_IMAGES = 12


@pytest.fixture(scope="module")
def server(vl_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    configuration = toml(
        vl_model,
        tool_calls="required",
        max_output_tokens=128,
        max_images=MAX_IMAGES,
        context_policy="compact",
    )
    with serving(tmp_path_factory.mktemp("server"), configuration) as server:
        yield server


def picture(number: int, height: int = 48, width: int = 64) -> brain_pb2.ContentPart:
    pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
    image = common_pb2.Image(
        encoding=common_pb2.IMAGE_ENCODING_RGB8,
        height=height,
        width=width,
        data=pixels.tobytes(),
        camera="agentview",
    )
    return brain_pb2.ContentPart(image=image)


def with_picture(message: brain_pb2.Message, part: brain_pb2.ContentPart) -> brain_pb2.Message:
    message.parts.append(part)
    return message


def look_around(client: Client, num_turns: int) -> list[brain_pb2.DecideDone]:
    """An episode that brings one picture more at every turn."""
    robot = admitted(client)
    dones = []
    messages, tools = [with_picture(user("where is the cup?"), picture(0))], [LOOK]
    for turn_index in range(num_turns):
        inbox = robot.decide(turn_index, messages, tools=tools)
        dones.append(done_of(inbox))
        (call,) = calls_of(inbox)
        result = brain_pb2.Message(
            role=brain_pb2.ROLE_TOOL,
            parts=[brain_pb2.ContentPart(text="seen"), picture(turn_index + 1)],
            tool_call_id=call.tool_call_id,
            tool_name=call.name,
        )
        messages, tools = [result], []
    robot.end()
    return dones


def test_a_history_that_grows_by_a_picture_a_turn_keeps_its_hits(
    client: Client, server: Server
) -> None:
    before = counters(client)

    dones = look_around(client, 8)

    usages = [done.usage for done in dones]
    previous = 0
    for turn_index, usage in enumerate(usages):
        assert usage.num_images == turn_index + 1
        assert usage.new_tokens > TOKENS_PER_IMAGE
        assert usage.input_tokens - usage.new_tokens == previous
        assert not previous or keeps_prefix(usage)
        previous = usage.input_tokens + usage.output_tokens
    after = counters(client)
    assert tuple(b - a for a, b in zip(before, after, strict=True)) == totals(usages)
    assert all(done.timing.HasField("preprocess_s") for done in dones)
    # Old pictures were named only, and vLLM still had what it made of them.
    assert "let go of an older picture" not in server.log


def test_d8_thirty_turns_with_a_picture_each_outgrow_the_model_and_none_fails(
    client: Client,
) -> None:
    dones = look_around(client, 30)

    assert max(done.usage.num_images for done in dones) == MAX_IMAGES
    assert 1 <= sum(done.dropped_turns > 0 for done in dones) <= 6
    for before, after in zip(dones, dones[1:], strict=False):
        previous = before.usage.input_tokens + before.usage.output_tokens
        assert after.dropped_turns or after.usage.input_tokens - after.usage.new_tokens == previous
        assert keeps_prefix(after.usage)


def test_d1_episodes_with_other_first_frames_share_system_prompt_and_tools(
    client: Client,
) -> None:
    front = brain_pb2.Message(
        role=brain_pb2.ROLE_SYSTEM,
        parts=[brain_pb2.ContentPart(text="You move one arm over a table. " * 10)],
    )
    usages = []
    for number in (20, 21):
        robot = admitted(client)
        question = with_picture(user("Task: sort the cups"), picture(number))
        usages.append(done_of(robot.decide(0, [front, question], tools=[LOOK])).usage)
        robot.end()
    robot = admitted(client)
    text_alone = done_of(robot.decide(0, [front, user("Task: sort the cups")], tools=[LOOK])).usage
    robot.end()
    first, second = usages

    # Behind the text stand the end of the message and the head of the answer.
    constant = text_alone.input_tokens - BLOCK_TOKENS
    assert second.cached_tokens > constant - BLOCK_TOKENS
    assert second.cached_tokens > first.cached_tokens


def test_d10_pictures_of_equal_bytes_and_other_shape_share_no_prefix(client: Client) -> None:
    part = picture(7, 30, 150)
    turned = common_pb2.Image()
    turned.CopyFrom(part.image)
    turned.height, turned.width = 150, 30
    question = "what is on the table? " + "look well. " * 20
    usages = []
    for image in (part.image, part.image, turned):
        robot = admitted(client)
        message = with_picture(user(question), brain_pb2.ContentPart(image=image))
        usages.append(done_of(robot.decide(0, [message], tools=[LOOK])).usage)
        robot.end()
    _, same, other = usages

    before_picture = same.input_tokens - TOKENS_PER_IMAGE
    assert same.cached_tokens > before_picture - BLOCK_TOKENS
    assert other.cached_tokens < same.cached_tokens


def test_a_picture_named_again_without_its_bytes_is_shown_to_the_model(client: Client) -> None:

    image = picture(9).image
    name = image_id(image.encoding, image.height, image.width, image.data)
    robot = admitted(client)
    first = robot.decide(0, [with_picture(user("look"), brain_pb2.ContentPart(image=image))])
    done_of(first)
    messages = [
        with_picture(user("again"), brain_pb2.ContentPart(image=common_pb2.Image(image_id=name)))
    ]

    usage = done_of(robot.decide(1, messages)).usage

    assert usage.num_images == 2
    robot.end()
