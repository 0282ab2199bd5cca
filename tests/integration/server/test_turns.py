"""Turns that break, repeat, overlap or are cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from robot_sdk.api.v1 import brain_pb2, fleet_pb2
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import (
    BadModelOutputError,
    CancelledByServerError,
    DeadlineExceededError,
    FencedError,
    InternalServerError,
    InvalidArgumentError,
    OutOfOrderError,
    OverloadedError,
    TurnInProgressError,
    WorkerUnavailableError,
)
from tests.integration.server.harness import Client, Robot, Server, tool_result, user, wait_until

ECHO = '[brain]\nengine = "factory"\nfactory = "tests.fakes.brains:EchoBrain"\n{more}\n[policies]\n'


@pytest.fixture
def echo(start_server: Callable[..., Server], connect: Callable[..., Client]) -> Iterator[Robot]:
    """An admitted robot on a server with the echo brain."""
    robot = Robot(connect(start_server(ECHO.format(more=""))), policies=[])
    robot.admitted()
    robot.keep_alive()
    yield robot
    robot.drop()


def kinds(messages: list[brain_pb2.DecideResponse]) -> list[str | None]:
    return [m.WhichOneof("message") for m in messages]


def test_c4_a_committed_turn_asked_again_is_replayed_word_for_word(echo: Robot) -> None:
    first = echo.decide(0, [user("hello")]).rest()
    again = echo.decide(0, [user("hello")]).rest()

    assert kinds(again) == kinds(first) == ["accepted", "reasoning", "text", "tool_call", "done"]
    assert not first[0].accepted.replayed
    assert again[0].accepted.replayed
    assert [m.tool_call for m in again] == [m.tool_call for m in first]
    assert again[-1].done.usage == first[-1].done.usage
    brain = echo.client.status().brain
    assert (brain.committed_turns_total, brain.replayed_turns_total) == (1, 1)


def test_a_turn_that_skips_one_is_out_of_order(echo: Robot) -> None:
    with pytest.raises(OutOfOrderError, match="turn_index"):
        echo.decide(3, [user("hello")]).rest()


def test_the_same_turn_twice_at_once_is_in_progress(echo: Robot) -> None:
    running = echo.decide(0, [user("slow")])
    running.until("accepted")

    with pytest.raises(TurnInProgressError) as caught:
        echo.decide(0, [user("slow")]).rest()

    assert caught.value.retry_after_s is not None
    running.until("done")


def test_a_broken_turn_leaves_no_trace_and_can_be_run_again_at_once(echo: Robot) -> None:
    broken = echo.decide(0, [user("slow")])
    broken.until("accepted")
    broken.call.cancel()
    wait_until(lambda: echo.client.status().brain.aborted_turns_total == 1)

    done = echo.decide(0, [user("hello")]).rest()

    assert not done[0].accepted.replayed
    assert done[3].tool_call.arguments_json == '{"n": 1}'


def test_a7_a_cancelled_turn_counts_as_running_until_its_work_has_stopped(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    client = connect(start_server(ECHO.format(more="options = {slow_s = 1.5}")))
    robots = [Robot(client, policies=[]) for _ in range(4)]
    for robot in robots:
        robot.admitted()
        robot.keep_alive()
    calls = [robot.decide(0, [user("slow")]) for robot in robots]
    wait_until(lambda: client.status().brain.running_turns == 4)

    for call in calls:
        call.call.cancel()
    wait_until(lambda: client.status().brain.aborted_turns_total == 4)

    assert client.status().brain.running_turns == 4
    assert robots[0].decide(0, [user("hello")]).rest()[-1].done.turn_index == 0
    wait_until(lambda: client.status().brain.running_turns == 0)
    for robot in robots:
        robot.drop()


def test_a8_a_turn_that_an_operator_ends_tells_its_client_at_once(echo: Robot) -> None:
    call = echo.decide(0, [user("slow")], timeout_s=None)
    call.until("accepted")
    started_s = SYSTEM_CLOCK.now_s()

    echo.client.fleet.EndEpisode(
        fleet_pb2.EndEpisodeRequest(episode_id=echo.reference.episode_id, reason="maintenance")
    )

    with pytest.raises(CancelledByServerError, match="maintenance"):
        call.rest()
    assert SYSTEM_CLOCK.now_s() - started_s < 1.0
    revoked = echo.inbox.until("revoked")
    assert "maintenance" in revoked.error.message
    assert echo.inbox.rest() == []


def test_the_deadline_of_a_turn_is_kept_by_the_server(echo: Robot) -> None:
    with pytest.raises(DeadlineExceededError, match="deadline"):
        echo.decide(0, [user("slow")], deadline_s=0.3).rest()

    assert echo.decide(0, [user("hello")]).rest()[-1].done.turn_index == 0


@pytest.mark.parametrize("field", ["deadline_s", "slack_s"])
def test_a_time_that_is_no_number_is_refused(echo: Robot, field: str) -> None:
    with pytest.raises(InvalidArgumentError, match=field):
        echo.decide(0, [user("hello")], **{field: float("nan")}).rest()

    assert echo.decide(0, [user("hello")]).rest()[-1].done.turn_index == 0


def test_sampling_that_no_model_can_follow_is_refused_by_name(echo: Robot) -> None:
    for field, value in (
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("max_output_tokens", 0),
    ):
        sampling = brain_pb2.Sampling(**{field: value})
        with pytest.raises(InvalidArgumentError, match=f"sampling.{field}"):
            echo.decide(0, [user("hello")], sampling=sampling).rest()

    assert echo.decide(0, [user("hello")]).rest()[-1].done.turn_index == 0


def test_a_message_of_too_many_parts_is_refused(echo: Robot) -> None:
    message = user("hello")
    message.parts.extend([brain_pb2.ContentPart(text="a")] * 1024)

    with pytest.raises(InvalidArgumentError, match=r"new_messages\[0\].parts"):
        echo.decide(0, [message]).rest()


def test_a6_a_restarted_brain_worker_gets_the_whole_conversation(echo: Robot) -> None:
    for turn, word in enumerate(["hello", "and now?"]):
        answers = [tool_result(f"call-{turn - 1}", "echo", "{}")] if turn else []
        echo.decide(turn, [*answers, user(word)]).rest()
    next_messages = [tool_result("call-1", "echo", "{}"), user("die")]
    with pytest.raises(WorkerUnavailableError):
        echo.decide(2, next_messages).rest()
    wait_until(lambda: echo.client.status().brain.ready)
    next_messages[-1] = user("go on")

    answer = echo.decide(2, next_messages).rest()

    assert answer[3].tool_call.arguments_json == '{"n": 7}'


def test_a_turn_of_an_older_epoch_is_fenced(echo: Robot) -> None:
    echo.resume()
    echo.inbox.until("admitted")

    with pytest.raises(FencedError):
        echo.decide(0, [user("hello")]).rest()


def test_a_failing_brain_tells_no_internals(echo: Robot) -> None:
    with pytest.raises(InternalServerError) as caught:
        echo.decide(0, [user("raise")]).rest()

    assert "secret" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_the_engines_own_error_reaches_the_client_whole(echo: Robot) -> None:
    with pytest.raises(OverloadedError, match="the engine is full") as caught:
        echo.decide(0, [user("busy")]).rest()

    assert caught.value.retry_after_s == 2.5


def test_a_cut_answer_is_finished_with_length(echo: Robot) -> None:
    done = echo.decide(0, [user("cut")]).until("done")

    assert done.finish_reason == brain_pb2.FINISH_REASON_LENGTH


def test_tool_calls_that_share_an_id_are_not_delivered(echo: Robot) -> None:
    call = echo.decide(0, [user("twice")])

    with pytest.raises(BadModelOutputError):
        call.rest()
    assert "tool_call" not in kinds(call.seen)


def test_a6_a_brain_worker_that_dies_is_restarted_and_the_turn_runs_again(echo: Robot) -> None:
    with pytest.raises(WorkerUnavailableError) as caught:
        echo.decide(0, [user("die")]).rest()
    assert caught.value.retry_after_s is not None
    wait_until(lambda: echo.client.status().brain.ready)

    assert echo.decide(0, [user("hello")]).rest()[-1].done.turn_index == 0


@pytest.mark.parametrize("mistake", ["arguments", "text", "calls", "endless", "exit"])
def test_a_mistake_of_a_planner_costs_its_turn_and_no_other(
    mistake: str, start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    server = start_server(ECHO.format(more="").replace("EchoBrain", "SloppyBrain"))
    client = connect(server)
    robots = [Robot(client, policies=[]) for _ in range(2)]
    for robot in robots:
        robot.admitted()
        robot.keep_alive()

    with pytest.raises((BadModelOutputError, InternalServerError)):
        robots[0].decide(0, [user(mistake)]).rest()
    for robot in robots:
        answer = robot.decide(0, [user("well")]).rest()
        assert answer[1].text.text == "well"

    assert client.status().brain.committed_turns_total == 2
    assert server.log.count("is ready") == 1
    for robot in robots:
        robot.drop()


def test_every_tool_call_needs_its_answer(echo: Robot) -> None:
    echo.decide(0, [user("hello")]).rest()

    with pytest.raises(InvalidArgumentError, match=r"tool_call_id.*allowed: call-0"):
        echo.decide(1, [user("and now?")]).rest()
    with pytest.raises(InvalidArgumentError, match="tool_call_id"):
        echo.decide(1, [tool_result("call-7", "echo", "{}")]).rest()
    assert echo.decide(1, [tool_result("call-0", "echo", "{}")]).rest()[-1].done.turn_index == 1


def test_a_client_cannot_speak_for_the_assistant(echo: Robot) -> None:
    message = brain_pb2.Message(
        role=brain_pb2.ROLE_ASSISTANT, parts=[brain_pb2.ContentPart(text="I did it")]
    )

    with pytest.raises(InvalidArgumentError, match=r"new_messages\[0\].role"):
        echo.decide(0, [message]).rest()


def test_a15_a_reader_that_stalls_does_not_grow_the_server(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    server = start_server(
        '[brain]\nengine = "factory"\nfactory = "tests.fakes.brains:ChattyBrain"\n'
        "options = {num = 20000, size = 100}\n[policies]\n"
    )
    robot = Robot(connect(server), policies=[])
    robot.admitted()
    robot.keep_alive()
    before = rss_bytes(server.process.pid)
    request = brain_pb2.DecideRequest(
        episode=robot.reference, turn_index=0, new_messages=[user("talk")]
    )

    call = robot.client.brain.Decide(request)  # read only after the brain has said it all
    wait_until(lambda: robot.client.status().brain.running_turns == 1)
    wait_until(lambda: robot.client.status().brain.running_turns == 0)
    grown = rss_bytes(server.process.pid) - before
    text = "".join(m.text.text for m in call if m.WhichOneof("message") == "text")

    assert len(text) == 2_000_000
    assert grown < 60_000_000
    robot.drop()


def test_a_turn_that_never_stops_writing_is_given_up(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    server = start_server(
        '[brain]\nengine = "factory"\nfactory = "tests.fakes.brains:ChattyBrain"\n'
        "options = {num = 100000, size = 1000}\nmax_output_bytes = 100000\n[policies]\n"
    )
    robot = Robot(connect(server), policies=[])
    robot.admitted()

    with pytest.raises(BadModelOutputError, match="max_output_bytes"):
        robot.decide().rest()
    wait_until(lambda: robot.client.status().brain.running_turns == 0)


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    from pathlib import Path

    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096
