"""Turns: committed once, replayed on a retry, never half delivered."""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import (
    BadModelOutputError,
    DeadlineExceededError,
    InvalidArgumentError,
    OutOfOrderError,
    TooLargeError,
    UnsupportedError,
    WorkerUnavailableError,
)
from robot_sdk.messages import (
    ImagePart,
    Message,
    Sampling,
    TextPart,
    TokenUsage,
    ToolCall,
    ToolSpec,
)
from robot_sdk.testing import FakeDecision
from tests.contract.waiting import eventually

HELLO = [Message.of_text("user", "go")]
CALL = ToolCall("call-0", "move_to", '{"x": 0.1, "b": "é 拿"}')


@pytest.fixture
def episode(rig):
    client = rig.connect()
    with client.episode(task="reach", robot_id="robot-0", policies=("reach",)) as episode:
        yield episode


def test_a_turn_brings_text_tool_calls_usage_and_timing(rig, episode):
    usage = TokenUsage(input_tokens=120, cached_tokens=0, output_tokens=7)
    rig.fake.brain = lambda request: FakeDecision("moving", "why not", (CALL,), usage=usage)
    heard = []
    turn = episode.decide(HELLO, on_text=heard.append)
    assert (turn.index, turn.text, turn.reasoning, turn.tool_calls) == (
        0,
        "moving",
        "why not",
        (CALL,),
    )
    assert heard == ["moving"]
    assert turn.usage == usage  # a cached count of 0 is not unknown, an absent one is
    assert turn.usage.computed_tokens is None
    assert turn.timing.server_s is not None
    assert turn.latency_s >= turn.timing.server_s >= 0
    assert turn.timing.queue_s is None
    assert (turn.finish_reason, turn.replayed, turn.num_attempts) == ("stop", False, 1)


def test_a_turn_carries_tools_images_sampling_and_trace(rig, episode):
    image = np.arange(30 * 150 * 3, dtype=np.uint8).reshape(30, 150, 3)
    tool = ToolSpec("move_to", "go there", {"type": "object", "properties": {"x": {}}})
    trace = common_pb2.TraceContext(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    message = Message("user", (TextPart("look"), ImagePart(image[::-1], "wrist")))
    episode.decide([message], [tool], sampling=Sampling(seed=3), slack_s=0.5, trace=trace)
    request = rig.fake.decide_requests[0]
    assert request.tools[0].parameters_json == '{"type":"object","properties":{"x":{}}}'
    sent = request.new_messages[0].parts[1].image
    assert (sent.height, sent.width, sent.camera) == (30, 150, "wrist")
    assert sent.data == np.ascontiguousarray(image[::-1]).tobytes()
    assert len(sent.image_id) == 32
    assert request.sampling.seed == 3
    assert not request.sampling.HasField("temperature")
    assert request.slack_s == 0.5
    assert request.trace == trace


def test_turns_count_up_and_send_only_what_is_new(rig, episode):
    for index in range(3):
        assert episode.decide([Message.of_text("user", f"message {index}")]).index == index
    sent = [request.new_messages[0].parts[0].text for request in rig.fake.decide_requests]
    assert sent == ["message 0", "message 1", "message 2"]


def test_c4_a_turn_whose_answer_was_lost_after_the_commit_is_replayed_not_run_again(rig, episode):
    runs = []

    def brain(request):
        runs.append(request.turn_index)
        return FakeDecision("moving", tool_calls=(CALL,))

    rig.fake.brain = brain
    rig.fake.brain_faults.break_after_commit = 1
    turn = episode.decide(HELLO)
    assert runs == [0]
    assert turn.tool_calls == (CALL,)
    assert (turn.replayed, turn.num_attempts) == (True, 2)


def test_c4_a_turn_that_broke_before_the_commit_is_run_again_and_leaves_no_words(rig, episode):
    rig.fake.brain = lambda request: FakeDecision("moving", tool_calls=(CALL,))
    rig.fake.brain_faults.break_before_commit = 2
    turn = episode.decide(HELLO)
    assert turn.text == "moving"
    assert turn.tool_calls == (CALL,)
    assert (turn.replayed, turn.num_attempts) == (False, 3)


def test_c6_a_new_episode_hears_nothing_of_a_broken_one(rig):
    client = rig.connect()
    rig.fake.brain = lambda request: FakeDecision(f"for {request.episode.episode_id}", delay_s=0.0)
    with client.episode(task="first", robot_id="robot-0") as first:
        rig.fake.brain_faults.break_before_commit = 1
        with pytest.raises(DeadlineExceededError):
            first.decide(HELLO, deadline_s=0.05)
        old_id = first.id
    with client.episode(task="second", robot_id="robot-0") as second:
        heard = []
        turn = second.decide(HELLO, on_text=heard.append)
        assert second.id != old_id
        assert turn.text == "".join(heard) == f"for {second.id}"


def test_a_deadline_bounds_a_turn(rig, episode):
    rig.fake.brain_faults.break_before_commit = 1000
    with pytest.raises(DeadlineExceededError, match="turn 0"):
        episode.decide(HELLO, deadline_s=0.3)
    rig.fake.brain_faults.break_before_commit = 0
    assert episode.decide(HELLO).index == 0


def test_a_brain_that_takes_too_long_is_given_up_at_the_deadline(rig, episode):
    rig.fake.brain = lambda request: FakeDecision("too late", delay_s=30.0)
    with pytest.raises(DeadlineExceededError):
        episode.decide(HELLO, deadline_s=0.2)
    assert rig.fake.decide_requests[0].deadline_s <= 0.2
    rig.fake.brain = lambda request: FakeDecision("in time")
    assert episode.decide(HELLO).text == "in time"


def test_a_turn_survives_a_short_outage(rig, episode):
    rig.fake.brain_faults.break_before_commit = 1
    record = rig.fake.episodes.all[0]
    rig.fake.break_streams()
    assert episode.decide(HELLO).text == "done"
    eventually(lambda: record.epoch == 2)


def test_an_error_of_the_brain_reaches_the_caller_with_its_detail(rig, episode):
    def fail(request):
        raise BadModelOutputError("no", field="text", value="?", allowed=["words"])

    rig.fake.brain = fail
    with pytest.raises(BadModelOutputError) as caught:
        episode.decide(HELLO)
    assert (caught.value.field, caught.value.allowed) == ("text", ("words",))


def test_a_brain_that_is_accepted_but_never_ready_is_given_up_in_time_and_told_once(
    rig, episode, monkeypatch, caplog
):
    monkeypatch.setattr("robot_sdk.brain_client.RETRY_FOR_S", 0.5)
    runs = []

    def unready(request):
        runs.append(1)
        raise WorkerUnavailableError("the brain is not ready: it is loading")

    rig.fake.brain = unready
    with pytest.raises(WorkerUnavailableError, match="it is loading"):
        episode.decide(HELLO)
    assert len(runs) > 1
    assert caplog.text.count("it is loading") == 1


def test_an_internal_error_of_the_brain_is_not_retried(rig, episode):
    runs = []

    def crash(request):
        runs.append(1)
        raise OutOfOrderError("boom")

    rig.fake.brain = crash
    with pytest.raises(OutOfOrderError):
        episode.decide(HELLO)
    assert runs == [1]


def test_a_message_that_cannot_travel_is_refused_before_sending(rig, episode):
    with pytest.raises(InvalidArgumentError, match=r"messages\[0\].parts\[0\]"):
        episode.decide([Message("user", (ImagePart(np.zeros((3, 8, 3), np.uint8)),))])
    with pytest.raises(InvalidArgumentError, match="tool_call_id"):
        episode.decide([Message.of_text("tool", "result")])
    assert rig.fake.decide_requests == []


def test_a1_a_turn_over_the_limit_is_refused_here_with_size_and_limit(rig, episode):
    picture = ImagePart(np.zeros((4000, 6000, 3), np.uint8))
    with pytest.raises(TooLargeError, match=r"72000\d+ bytes, the limit is 67108864"):
        episode.decide([Message("user", (picture,))])
    assert episode.decide(HELLO).index == 0


def test_an_exception_in_on_text_comes_out_and_the_turn_can_be_asked_again(rig, episode):
    rig.fake.brain = lambda request: FakeDecision("words")

    def refuse(text):
        raise RuntimeError("display is gone")

    with pytest.raises(RuntimeError, match="display is gone"):
        episode.decide(HELLO, on_text=refuse)
    assert episode.decide(HELLO).text == "words"


def test_an_episode_without_a_brain_says_so(rig):
    client = rig.connect()
    with client.episode(task="reach", robot_id="robot-0", uses_brain=False) as episode:
        with pytest.raises(UnsupportedError, match="uses_brain=True"):
            episode.decide(HELLO)
