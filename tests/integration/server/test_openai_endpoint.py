"""A brain behind an OpenAI-compatible endpoint that behaves well, badly, or not at all."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from robot_sdk import client as sdk
from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.episode import Episode
from robot_sdk.errors import (
    BadModelOutputError,
    CancelledByServerError,
    ContextLimitError,
    DeadlineExceededError,
    InternalServerError,
    InvalidArgumentError,
    OverloadedError,
    WorkerUnavailableError,
)
from robot_sdk.messages import ImagePart, Message, Sampling, TextPart, ToolSpec
from tests.fakes.openai_endpoint import (
    MODEL,
    FakeEndpoint,
    answer,
    call,
    chunk,
    endless,
    hang_up,
    raw,
    silent,
    status,
    stream,
    usage,
)
from tests.integration.server.harness import Robot, Server, user, wait_until

TOOLS = (
    ToolSpec("look", "Take a picture.", {"type": "object", "properties": {"b": {}, "a": {}}}),
    ToolSpec("stop", "Stop.", {"type": "object"}),
)
START = (Message.of_text("system", "Be brief."), Message.of_text("user", "Go: é 拿"))


def toml(endpoint: FakeEndpoint, more: str = "", brain: str = "") -> str:
    return f"""
[brain]
engine = "openai"
{brain}
[openai]
base_url = "{endpoint.base_url}"
model = "{MODEL}"
probe_interval_s = 0.3
{more}
[policies]
"""


@dataclass
class Shared:
    """One endpoint and one server with default settings, for all tests that change neither."""

    endpoint: FakeEndpoint
    server: Server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    fake = FakeEndpoint().start()
    server = Server(tmp_path_factory.mktemp("shared"), toml(fake))
    yield Shared(fake, server)
    server.close()
    fake.stop()


@pytest.fixture
def endpoint(shared: Shared) -> FakeEndpoint:
    shared.endpoint.will()
    return shared.endpoint


@pytest.fixture
def own_endpoint() -> Iterator[FakeEndpoint]:
    """For tests that change what it offers, or how the server takes it."""
    fake = FakeEndpoint().start()
    yield fake
    fake.stop()


@pytest.fixture
def server_at(
    shared: Shared, start_server: Callable[..., Server]
) -> Callable[[FakeEndpoint | None, str, str], Server]:
    """The shared server, or one with settings of its own."""

    def find(at: FakeEndpoint | None, more: str, brain: str) -> Server:
        if at is None and not more and not brain:
            return shared.server
        return start_server(toml(at or shared.endpoint, more, brain))

    return find


@pytest.fixture
def served(server_at: Callable[..., Server]) -> Iterator[Callable[..., Episode]]:
    """Enters an episode with the SDK."""
    with ExitStack() as stack:

        def enter(at: FakeEndpoint | None = None, more: str = "", brain: str = "") -> Episode:
            client = stack.enter_context(sdk.connect(server_at(at, more, brain).address))
            return stack.enter_context(client.episode(task="go", robot_id="r"))

        yield enter


@pytest.fixture
def raw_robot(
    server_at: Callable[..., Server], connect: Callable[..., Any]
) -> Iterator[Callable[..., Robot]]:
    """Admits a robot of raw stubs, which repeats nothing by itself."""
    robots: list[Robot] = []

    def enter(at: FakeEndpoint | None = None, more: str = "", brain: str = "") -> Robot:
        robot = Robot(connect(server_at(at, more, brain)), policies=[])
        robots.append(robot)
        robot.admitted()
        robot.keep_alive()
        return robot

    yield enter
    for robot in robots:
        robot.drop()


def results(*texts: str, call_ids: list[str]) -> list[Message]:
    return [
        Message("tool", (TextPart(text),), tool_call_id=call_id, tool_name="look")
        for text, call_id in zip(texts, call_ids, strict=True)
    ]


def test_a_whole_episode_travels_and_every_request_extends_the_last_one(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    arguments = '{"b": 1,"a":"é 拿"}'
    endpoint.will(
        answer(
            "I look.",
            [call(0, "c1", "look", arguments[:7]), call(0, None, "", arguments[7:])],
            usage(100, 20, 0),
            reasoning="hm",
        ),
        answer("", [call(0, "c2", "look", ""), call(1, "c3", "stop", "{}")], usage(150, 10, 112)),
        answer("Done.", counts=usage(190, 3)),
    )
    ep = served()

    first = ep.decide(START, TOOLS)
    second = ep.decide(results("nothing", call_ids=["c1"]))
    third = ep.decide(results("a cup", "stopped", call_ids=["c2", "c3"]))

    assert (first.text, first.reasoning, first.finish_reason) == ("I look.", "hm", "stop")
    assert [(c.id, c.name, c.arguments_json) for c in first.tool_calls] == [
        ("c1", "look", arguments)
    ]
    assert [c.arguments_json for c in second.tool_calls] == ["{}", "{}"]
    assert third.text == "Done."
    assert first.usage.input_tokens == first.usage.new_tokens == first.usage.computed_tokens == 100
    assert (first.usage.cached_tokens, first.usage.output_tokens) == (0, 20)
    assert (second.usage.cached_tokens, second.usage.computed_tokens) == (112, 38)
    assert (second.usage.new_tokens, third.usage.new_tokens) == (30, 30)
    assert third.usage.cached_tokens is None
    assert third.usage.computed_tokens is None
    fronts = [
        asked.raw.removesuffix(b'],"stream_options":{"include_usage":true}}')
        for asked in endpoint.asked
    ]
    assert fronts[1].startswith(fronts[0] + b",")
    assert fronts[2].startswith(fronts[1] + b",")
    assert endpoint.asked[1].messages[2] == {
        "role": "assistant",
        "reasoning": "hm",
        "content": "I look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}
        ],
    }
    assert endpoint.asked[2].messages[-1] == {
        "role": "tool",
        "tool_call_id": "c3",
        "content": "stopped",
    }
    assert '"properties":{"b":{},"a":{}}' in endpoint.asked[2].raw.decode().replace(" ", "")


def test_pictures_travel_as_data_urls_that_are_made_once(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    pixels = np.zeros((6, 8, 3), np.uint8)
    pixels[:3, :, 0] = 250
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    endpoint.will(answer("", [call(0, "c1", "look", "{}")]), answer("ok"), answer("ok"))
    ep = served(None, 'image_format = "png"')

    ep.decide([*START, Message("user", (TextPart("See:"), ImagePart(pixels, "front")))], TOOLS)
    picture = Message("tool", (TextPart("there"), ImagePart(file.getvalue())), "c1", "look")
    ep.decide([picture])
    ep.decide([Message("user", (ImagePart(pixels, "front"),))])

    def url(message: dict[str, Any], part: int) -> tuple[str, bytes]:
        head, _, data = message["content"][part]["image_url"]["url"].partition(",")
        return head, base64.b64decode(data)

    head, data = url(endpoint.asked[0].messages[2], 1)
    assert head == "data:image/png;base64"
    assert (np.asarray(Image.open(io.BytesIO(data))) == pixels).all()
    tool, moved = endpoint.asked[1].messages[4:6]
    assert (tool["role"], tool["content"], moved["role"]) == ("tool", "there", "user")
    assert url(moved, 1) == ("data:image/jpeg;base64", file.getvalue())
    assert endpoint.asked[2].messages[:6] == endpoint.asked[1].messages
    assert url(endpoint.asked[2].messages[7], 0) == (head, data)


def test_the_options_of_a_turn_follow_the_conversation(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    endpoint.will(answer("ok"), answer("ok"))
    ep = served(
        None, 'extra_body = {temperature = 0.5, top_k = 3}\nextra_headers = {X-Fleet = "a"}'
    )

    ep.decide(START, sampling=Sampling(temperature=0.0, max_output_tokens=7, seed=3))
    ep.decide([Message.of_text("user", "more")])

    body = endpoint.asked[0].body
    assert [body[name] for name in ("temperature", "top_k", "seed", "max_tokens")] == [0.0, 3, 3, 7]
    assert list(body)[:3] == ["model", "stream", "messages"]
    assert endpoint.asked[0].headers["X-Fleet"] == "a"
    assert endpoint.asked[1].body["temperature"] == 0.5
    assert "max_tokens" not in endpoint.asked[1].body


@pytest.mark.parametrize("refusal", [status(429, Retry_After="0"), status(503)], ids=["429", "503"])
def test_a_request_that_was_not_taken_is_repeated(
    endpoint: FakeEndpoint, served: Callable[..., Episode], refusal: Any
) -> None:
    endpoint.will(refusal, refusal, answer("at last"))

    assert served().decide(START).text == "at last"
    assert [a.raw for a in endpoint.asked] == [endpoint.asked[0].raw] * 3


def test_a_retry_after_that_is_too_long_is_handed_to_the_robot(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    endpoint.will(status(429, Retry_After="120"), answer("ok"))
    robot = raw_robot()

    with pytest.raises(OverloadedError) as caught:
        robot.decide(0, [user("go")]).rest()

    assert caught.value.retry_after_s == 120
    assert len(endpoint.asked) == 1


def test_retries_end_before_the_deadline_of_the_turn(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    endpoint.will(*[status(503)] * 20)
    robot = raw_robot(None, "max_retries = 20")

    with pytest.raises(WorkerUnavailableError, match="503"):
        robot.decide(0, [user("go")], deadline_s=2.0).rest()

    assert 1 < len(endpoint.asked) < 7


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (status(500), WorkerUnavailableError, "500"),
        (status(502, {"detail": "bad gateway"}), WorkerUnavailableError, "bad gateway"),
        (hang_up(), WorkerUnavailableError, "before it answered"),
        (raw(b"data: {nonsense\n\n"), BadModelOutputError, "no chunk"),
        (raw(b"data: [1, 2]\n\n"), BadModelOutputError, "no chunk"),
        (raw(b'data: {"choices": 3}\n\n'), BadModelOutputError, "no chunk"),
        (raw(b"\xff\xfe\x00" * 50), BadModelOutputError, "middle of the answer"),
        (raw(b"<html>hello</html>", "text/html"), BadModelOutputError, "text/html"),
        (raw(b'{"choices": []}', "application/json"), BadModelOutputError, "application/json"),
        (stream(chunk({"content": "half"})), BadModelOutputError, "middle of the answer"),
        (
            stream(chunk({"content": "half"}), {"error": {"message": "boom", "code": 500}}),
            BadModelOutputError,
            "boom",
        ),
        (answer("no", finish="content_filter"), BadModelOutputError, "content_filter"),
        (answer("", [call(0, "c", "", "{}")]), BadModelOutputError, "without a name"),
    ],
)
def test_a_turn_that_went_wrong_is_not_repeated_by_the_server_and_leaves_no_trace(
    endpoint: FakeEndpoint,
    raw_robot: Callable[..., Robot],
    reply: Any,
    error: type[Exception],
    words: str,
) -> None:
    endpoint.will(reply, answer("fine"))
    robot = raw_robot()

    with pytest.raises(error, match=words):
        robot.decide(0, [user("go")]).rest()
    assert len(endpoint.asked) == 1
    again = robot.decide(0, [user("go")]).rest()

    assert "".join(m.text.text for m in again if m.WhichOneof("message") == "text") == "fine"
    assert endpoint.asked[1].raw == endpoint.asked[0].raw


@pytest.mark.parametrize(
    ("reply", "setting"),
    [
        (silent(headers=False), "first_token_timeout_s"),
        (silent(), "first_token_timeout_s"),
        (silent(comments=True), "first_token_timeout_s"),
        (silent(chunk({"content": "a"})), "silence_timeout_s"),
        (silent(chunk({"content": "a"}), comments=True), "silence_timeout_s"),
    ],
    ids=["no headers", "no event", "comments only", "stuck", "stuck with comments"],
)
def test_an_endpoint_that_falls_silent_is_given_up_and_left(
    endpoint: FakeEndpoint,
    raw_robot: Callable[..., Robot],
    reply: Any,
    setting: str,
) -> None:
    endpoint.will(reply, answer("fine"))
    timeouts = "first_token_timeout_s = 1.5\nsilence_timeout_s = 1.5"
    robot = raw_robot(None, timeouts)

    with pytest.raises(WorkerUnavailableError, match=setting):
        robot.decide(0, [user("go")]).rest()

    wait_until(lambda: endpoint.num_broken == 1)
    assert robot.decide(0, [user("go")]).rest()[-1].done.turn_index == 0


def test_d7_a_cancelled_turn_closes_its_connection_and_frees_its_place(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    endpoint.will(endless(chunk({"content": "word "})), answer("fine"))
    robot = raw_robot(brain="max_running_turns = 1")
    turn = robot.decide(0, [user("go")])
    turn.until("text")
    started_s = SYSTEM_CLOCK.now_s()

    turn.call.cancel()

    wait_until(lambda: endpoint.num_broken == 1, 2.0)
    assert SYSTEM_CLOCK.now_s() - started_s < 2.0
    assert robot.decide(0, [user("go")]).rest()[-1].done.turn_index == 0
    assert robot.client.status().brain.running_turns == 0


def test_a7_ten_cancelled_turns_leave_nothing_running_and_the_next_one_is_served(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    endpoint.will(*[endless(chunk({"content": "word "}))] * 10, answer("fine"))
    robot = raw_robot(brain="max_running_turns = 2")

    for _ in range(10):
        turn = robot.decide(0, [user("go")])
        turn.until("text")
        turn.call.cancel()
        wait_until(lambda: robot.client.status().brain.running_turns == 0)

    wait_until(lambda: endpoint.num_broken == 10)
    assert robot.decide(0, [user("go")]).rest()[-1].done.turn_index == 0


def test_c2_an_answer_of_six_lease_times_keeps_the_lease(
    own_endpoint: FakeEndpoint, start_server: Callable[..., Server]
) -> None:
    ttl_s = 1.0
    own_endpoint.will(silent(chunk({"content": "a"})), answer("fine"))
    more = f"silence_timeout_s = {6 * ttl_s}"
    lease = f"[episodes]\nlease_ttl_s = {ttl_s}\nheartbeat_interval_s = {ttl_s / 4}\n"
    server = start_server(toml(own_endpoint, more) + lease)

    with sdk.connect(server.address) as client, client.episode(task="go", robot_id="r") as ep:
        turn = ep.decide(START)

    # The endpoint's silence is given up after six lease times, and the turn asked again.
    assert turn.text == "fine"
    assert turn.latency_s >= 6 * ttl_s


def test_c4_a_committed_turn_asked_again_is_replayed_and_the_endpoint_is_not_asked(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    endpoint.will(answer("fine", [call(0, "c1", "look", "{}")]), answer("another"))
    robot = raw_robot()
    first = robot.decide(0, [user("go")]).rest()

    again = robot.decide(0, [user("go")]).rest()

    assert again[0].accepted.replayed
    assert again[-2].tool_call == first[-2].tool_call
    assert again[-2].tool_call.tool_call_id == "c1"
    assert len(endpoint.asked) == 1


def test_c6_nothing_of_a_dropped_turn_reaches_the_next_episode(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    endpoint.will(endless(chunk({"content": "old "})), answer("new"))
    old = raw_robot()
    dropped = old.decide(0, [user("the old task")])
    dropped.until("text")
    old.drop()
    dropped.call.cancel()

    said = raw_robot().decide(0, [user("the new task")]).rest()

    assert "".join(m.text.text for m in said if m.WhichOneof("message") == "text") == "new"
    assert "the old task" not in endpoint.asked[1].raw.decode()


def test_a8_an_operator_who_ends_the_episode_stops_the_work_at_the_endpoint(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    endpoint.will(endless(chunk({"content": "word "})))
    robot = raw_robot()
    turn = robot.decide(0, [user("go")], timeout_s=None)
    turn.until("text")

    robot.client.fleet.EndEpisode(
        fleet_pb2.EndEpisodeRequest(episode_id=robot.reference.episode_id, reason="maintenance")
    )

    with pytest.raises(CancelledByServerError, match="maintenance"):
        turn.rest()
    wait_until(lambda: endpoint.num_broken == 1)


def test_a7_a_deadline_stops_the_work_at_the_endpoint(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    endpoint.will(endless(chunk({"content": "word "})))

    with pytest.raises(DeadlineExceededError):
        served().decide(START, deadline_s=0.5)

    wait_until(lambda: endpoint.num_broken == 1)


def test_turns_beyond_the_places_wait_in_order(
    endpoint: FakeEndpoint, start_server: Callable[..., Server], connect: Callable[..., Any]
) -> None:
    client = connect(start_server(toml(endpoint, brain="max_running_turns = 1")))
    endpoint.will(endless(chunk({"content": "word "})))
    robots = [Robot(client, policies=[], robot_id=f"r{i}") for i in range(2)]
    for robot in robots:
        robot.admitted()
        robot.keep_alive()
    first = robots[0].decide(0, [user("go")])
    first.until("text")

    second = robots[1].decide(0, [user("go")])

    wait_until(lambda: client.status().brain.waiting_turns == 1)
    assert client.status().brain.running_turns == 1
    first.call.cancel()
    assert second.rest()[-1].done.timing.queue_s > 0
    for robot in robots:
        robot.drop()


@pytest.mark.parametrize(
    "refusal",
    [
        status(400, {"error": {"message": "too much", "code": "context_length_exceeded"}}),
        status(400, "This model's maximum context length is 2048 tokens. However, ..."),
        status(413, "Request Entity Too Large"),
        stream({"error": {"message": "the prompt exceeds the context", "code": 400}}),
    ],
    ids=["code", "words", "too large", "in the stream"],
)
def test_d8_a_conversation_that_is_too_long_is_told_so_once(
    endpoint: FakeEndpoint, served: Callable[..., Episode], refusal: Any
) -> None:
    endpoint.will(refusal)

    with pytest.raises(ContextLimitError, match="too long"):
        served().decide(START)

    assert len(endpoint.asked) == 1


def test_d8_an_answer_that_would_not_fit_is_asked_for_without_its_bound(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    endpoint.will(status(400, "maximum context length is 100; you asked 62 + 55"), answer("ok"))

    turn = served().decide(START, sampling=Sampling(max_output_tokens=55))

    assert turn.text == "ok"
    assert [a.body.get("max_tokens") for a in endpoint.asked] == [55, None]


def test_d8_a_conversation_known_to_be_at_the_limit_is_not_sent(
    own_endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    own_endpoint.models = [{"id": MODEL, "max_model_len": 120}]
    own_endpoint.will(answer("ok", counts=usage(100, 20)))
    ep = served(own_endpoint)
    ep.decide(START)

    with pytest.raises(ContextLimitError, match="120"):
        ep.decide([Message.of_text("user", "more")])

    assert len(own_endpoint.asked) == 1


def test_more_pictures_than_the_model_takes_end_at_the_context_limit(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    endpoint.will(answer("ok"), answer("ok"))
    ep = served(None, "max_images = 1")
    picture = Message("user", (ImagePart(np.zeros((4, 4, 3), np.uint8)),))
    ep.decide([*START, picture])

    with pytest.raises(ContextLimitError, match="max_images"):
        ep.decide([picture])


def test_d9_a_cut_call_is_marked_and_does_not_poison_the_conversation(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    endpoint.will(
        answer("", [call(0, "c1", "look", '{"a": "unfin')], finish="length"), answer("sorry")
    )
    ep = served()

    cut = ep.decide(START, TOOLS)
    ep.decide([Message("tool", (TextPart("cut"),), "c1", "look", is_error=True)])

    assert cut.finish_reason == "length"
    assert cut.tool_calls[0].arguments_json == '{"a": "unfin'
    sent, told = endpoint.asked[1].messages[2:]
    arguments = json.loads(sent["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"unreadable_arguments": '{"a": "unfin'}
    assert told["content"] == "Error: cut"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_d4_an_answer_of_thinking_alone_is_an_empty_answer(
    endpoint: FakeEndpoint, served: Callable[..., Episode], field: str
) -> None:
    endpoint.will(answer("", **{field: "I could look."}), answer("ok"))
    ep = served()

    thought = ep.decide(START)
    ep.decide([Message.of_text("user", "Call a tool.")])

    assert (thought.text, thought.reasoning, thought.tool_calls) == ("", "I could look.", ())
    assert endpoint.asked[1].messages[2] == {
        "role": "assistant",
        field: "I could look.",
        "content": "",
    }


def test_d4_thinking_can_be_left_out_of_the_history(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    endpoint.will(answer("Yes.", reasoning="hm"), answer("ok"))
    ep = served(None, 'reasoning = "drop"')

    ep.decide(START)
    ep.decide([Message.of_text("user", "more")])

    assert endpoint.asked[1].messages[2] == {"role": "assistant", "content": "Yes."}


def test_calls_without_an_id_or_with_one_twice_get_their_own(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    same = [call(0, "c", "look", "{}"), call(1, "c", "look", "{}"), call(2, None, "stop", "{}")]
    endpoint.will(answer("", same), answer("", [call(0, "c", "stop", "{}")]), answer("ok"))
    ep = served()

    ids = [c.id for c in ep.decide(START, TOOLS).tool_calls]
    again = ep.decide(results("1", "2", "3", call_ids=ids)).tool_calls[0].id

    assert ids[0] == "c"
    assert len({*ids, again}) == 4
    assert [m["tool_call_id"] for m in endpoint.asked[1].messages[3:]] == ids


def test_an_endpoint_without_stream_options_is_asked_without_them(
    own_endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    own_endpoint.will(status(400, "Unknown field: stream_options"), answer("one"), answer("two"))
    ep = served(own_endpoint)

    first = ep.decide(START)
    ep.decide([Message.of_text("user", "more")])

    assert first.usage.estimated
    assert ["stream_options" in a.body for a in own_endpoint.asked] == [True, False, False]


def test_d6_a_second_count_is_read_and_a_missing_one_can_be_said_to_be_zero(
    endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    twice = [chunk({"content": "a"}, usage=usage(9, 0)), chunk({}, "stop", usage=usage(9, 1))]
    endpoint.will(
        stream(*twice, {"choices": [], "usage": usage(9, 1, 4)}, b"[DONE]"),
        answer("b", counts=usage(19, 1)),
    )
    ep = served(None, 'missing_cached_tokens = "zero"')

    first = ep.decide(START)
    second = ep.decide([Message.of_text("user", "more")])

    assert (first.usage.input_tokens, first.usage.cached_tokens) == (9, 4)
    assert first.usage.output_tokens == 1
    assert (second.usage.cached_tokens, second.usage.computed_tokens) == (0, 19)


def test_a_turn_that_writes_without_end_is_given_up(
    endpoint: FakeEndpoint, raw_robot: Callable[..., Robot]
) -> None:
    parts = call(0, "c", "look", "x" * 1000)
    endpoint.will(endless(chunk({"tool_calls": [parts]}), pause_s=0.0))
    robot = raw_robot(brain="max_output_bytes = 100000")

    with pytest.raises(BadModelOutputError, match="max_output_bytes"):
        robot.decide(0, [user("go")]).rest()

    wait_until(lambda: endpoint.num_broken == 1)


def test_an_endpoint_that_is_not_there_is_waited_for(
    start_server: Callable[..., Server], connect: Callable[..., Any]
) -> None:
    endpoint = FakeEndpoint().start()
    endpoint.stop()
    server = start_server(toml(endpoint))
    client = connect(server)
    robot = Robot(client, policies=[])
    queued = robot.inbox.until("queued")
    assert "the brain is not ready" in queued.reason
    assert "cannot be reached" in queued.reason
    assert "cannot be reached" in client.status().brain.problem

    endpoint.start()

    robot.admitted()
    robot.keep_alive()
    assert client.status().brain.ready
    assert client.status().brain.problem == ""
    assert robot.decide(0, [user("go")]).rest()[-1].done.model == MODEL
    endpoint.stop()
    wait_until(lambda: not client.status().brain.ready, 5.0)
    before = client.status().brain.aborted_turns_total
    with pytest.raises(WorkerUnavailableError, match="cannot be reached"):
        robot.decide(1, [user("go on")]).rest()
    assert client.status().brain.aborted_turns_total == before
    robot.drop()
    assert server.process.poll() is None
    assert "openai.base_url" in server.log


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (401, "openai.api_key_env"),
        (500, "failed"),
        ([{"id": "tinny"}, {"id": "other"}], "it offers tinny"),
        # More than one read brings.
        ([{"id": f"other-{n}", "description": 200 * "d"} for n in range(2000)], "it offers other"),
    ],
)
def test_an_endpoint_that_cannot_be_used_says_why(
    own_endpoint: FakeEndpoint,
    start_server: Callable[..., Server],
    connect: Callable[..., Any],
    models: Any,
    words: str,
) -> None:
    own_endpoint.models = models
    client = connect(start_server(toml(own_endpoint)))
    robot = Robot(client, policies=[])

    assert words in robot.inbox.until("queued").reason

    assert words in client.status().brain.problem
    assert own_endpoint.asked == []
    robot.drop()


def test_an_endpoint_at_another_address_is_not_ready(
    own_endpoint: FakeEndpoint, start_server: Callable[..., Server], connect: Callable[..., Any]
) -> None:
    settings = toml(own_endpoint).replace("/v1", "/v2")
    client = connect(start_server(settings))

    wait_until(lambda: "openai.base_url" in client.status().brain.problem, 5.0)
    brain = client.status().brain

    assert not brain.ready
    assert "openai.base_url" in brain.problem
    assert "<" not in brain.problem


def test_an_endpoint_without_a_model_list_is_used(
    own_endpoint: FakeEndpoint, served: Callable[..., Episode]
) -> None:
    own_endpoint.models = 404
    own_endpoint.will(answer("ok"))

    assert served(own_endpoint).decide(START).text == "ok"


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (status(401), InternalServerError, "openai.api_key_env"),
        (status(404), InternalServerError, "openai.model"),
        (status(307, Location="http://127.0.0.1:1/"), InternalServerError, "openai.base_url"),
        (status(422, {"detail": "no tools"}), InvalidArgumentError, "no tools"),
    ],
)
def test_a_request_that_is_refused_for_good_says_what_to_change(
    endpoint: FakeEndpoint,
    served: Callable[..., Episode],
    refusal: Any,
    error: type[Exception],
    words: str,
) -> None:
    endpoint.will(refusal)

    with pytest.raises(error, match=words):
        served().decide(START)

    assert len(endpoint.asked) == 1


def test_the_key_is_sent_and_told_to_nobody(
    own_endpoint: FakeEndpoint,
    start_server: Callable[..., Server],
    connect: Callable[..., Any],
    tmp_path: Path,
) -> None:
    key = "sk-very-secret-1"
    (tmp_path / "key").write_text(key + "\n")
    own_endpoint.will(
        status(401, f"Incorrect API key provided: {key}"),
        stream({"error": {"message": f"key {key} expired"}}),
    )
    server = start_server(
        toml(own_endpoint, f'api_key_file = "{tmp_path / "key"}"'),
        "--set",
        "server.log_level=debug",
        "--set",
        "server.port=0",
    )
    robot = Robot(connect(server), policies=[])
    robot.admitted()
    robot.keep_alive()

    errors = []
    for _ in range(2):
        with pytest.raises((InternalServerError, BadModelOutputError)) as caught:
            robot.decide(0, [user("go")]).rest()
        errors.append(str(caught.value))

    assert own_endpoint.asked[0].headers["Authorization"] == f"Bearer {key}"
    assert own_endpoint.model_headers[0]["Authorization"] == f"Bearer {key}"
    assert all("[key]" in text for text in errors)
    assert key not in "".join(errors) + server.log
    robot.drop()


def test_a_setting_that_is_missing_is_named_before_anything_is_served(
    start_server: Callable[..., Server],
) -> None:
    server = start_server('[brain]\nengine = "openai"\n[policies]\n', wait=False)

    assert server.wait_for_exit() == 2
    assert "openai.base_url" in server.log


def test_an_endpoint_whose_certificate_nobody_signed_is_not_used(
    start_server: Callable[..., Server], connect: Callable[..., Any], tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    endpoint = FakeEndpoint(tls=(certificate, key)).start()
    robots = [
        Robot(connect(start_server(toml(endpoint, more))), policies=[])
        for more in ("", f'ca_file = "{certificate}"')
    ]
    robots[1].admitted()
    robots[1].keep_alive()

    assert "openai.ca_file" in robots[0].inbox.until("queued").reason

    assert robots[1].decide(0, [user("go")]).rest()[-1].done.turn_index == 0
    for robot in robots:
        robot.drop()
    endpoint.stop()
