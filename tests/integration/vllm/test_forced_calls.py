"""Turns over gRPC on a real engine whose model must call a tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from robot_sdk.api.v1 import brain_pb2
from robot_sdk.errors import RobotSdkError
from robot_sdk.telemetry import start as start_telemetry
from robot_sdk.telemetry import trace_context
from robot_sdk.trace import read_folder
from tests.integration.server.harness import Client, Server, user, wait_until
from tests.integration.vllm.serving import (
    BLOCK_TOKENS,
    LOOK,
    admitted,
    brain_of,
    calls_of,
    counters,
    done_of,
    keeps_prefix,
    results_of,
    serving,
    toml,
    totals,
)

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def server(
    text_model: Path, run_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    configuration = toml(
        text_model,
        f'[telemetry]\nrun_folder = "{run_folder}"',
        tool_calls="required",
        max_output_tokens=256,
    )
    with serving(tmp_path_factory.mktemp("server"), configuration) as server:
        yield server


def test_twenty_turns_keep_their_whole_prefix_and_the_ledger_equals_the_engines_counters(
    client: Client,
) -> None:
    before = counters(client)
    robot = admitted(client, task_family="kitchen")
    usages = []
    messages, tools = [user("find the milk")], [LOOK]
    for turn_index in range(20):
        inbox = robot.decide(turn_index, messages, tools=tools)
        usages.append(done_of(inbox).usage)
        assert [call.name for call in calls_of(inbox)] == ["look"]
        messages, tools = results_of(inbox, f"step {turn_index}: nothing there"), []

    previous = 0
    for usage in usages:
        assert usage.input_tokens - usage.new_tokens == previous
        assert usage.computed_tokens == usage.input_tokens - usage.cached_tokens
        assert not previous or keeps_prefix(usage)
        previous = usage.input_tokens + usage.output_tokens
    after = counters(client)
    assert tuple(b - a for a, b in zip(before, after, strict=True)) == totals(usages)
    prefix = brain_of(client).prefix
    assert prefix.turns_in_window == 19
    assert prefix.full_prefix_hit == 1.0
    assert prefix.working_set_tokens == previous
    robot.end()
    wait_until(lambda: brain_of(client).prefix.working_set_tokens == 0)


def test_d6_a_cold_turn_says_zero_and_a_warm_one_what_was_cached(client: Client) -> None:
    assert client.handshake().brain.reports_cached_tokens
    cold_robot, warm_robot = admitted(client), admitted(client)
    question = [user("is there a cup? " + "look well. " * 40)]
    cold = done_of(cold_robot.decide(0, question, tools=[LOOK])).usage
    warm = done_of(warm_robot.decide(0, question, tools=[LOOK])).usage

    assert cold.HasField("cached_tokens")
    assert cold.cached_tokens < warm.cached_tokens < warm.input_tokens == cold.input_tokens
    assert warm.cached_tokens == (warm.input_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    cold_robot.end()
    warm_robot.end()


def test_d9_a_call_cut_at_the_output_limit_says_so_and_the_next_turn_is_whole(
    client: Client,
) -> None:
    robot = admitted(client)
    sampling = brain_pb2.Sampling(max_output_tokens=8)
    inbox = robot.decide(0, tools=[LOOK], sampling=sampling)
    cut = done_of(inbox)
    unfinished = calls_of(inbox)
    messages = results_of(inbox, "not run") or [user("call a tool")]
    after = robot.decide(1, messages)
    done = done_of(after)
    robot.end()

    assert cut.finish_reason == brain_pb2.FINISH_REASON_LENGTH
    for call in unfinished:
        with pytest.raises(ValueError):
            json.loads(call.arguments_json)
    assert done.finish_reason == brain_pb2.FINISH_REASON_STOP
    (call,) = calls_of(after)
    assert json.loads(call.arguments_json)["camera"] in ("left", "right")
    previous = cut.usage.input_tokens + cut.usage.output_tokens
    assert done.usage.input_tokens - done.usage.new_tokens == previous
    assert keeps_prefix(done.usage)


def test_c3_a_turn_of_an_ended_episode_is_refused_and_starts_nothing(client: Client) -> None:
    robot = admitted(client)
    inbox = robot.decide(0, tools=[LOOK])
    done_of(inbox)
    robot.end()
    before = counters(client)

    with pytest.raises(RobotSdkError):
        done_of(robot.decide(1, results_of(inbox)))

    assert counters(client) == before
    assert client.status().admission.active_episodes == 0


def test_c4_a_committed_turn_asked_again_is_replayed_and_not_computed(client: Client) -> None:
    robot = admitted(client)
    first = robot.decide(0, tools=[LOOK])
    done = done_of(first)
    before = counters(client)

    again = robot.decide(0, tools=[LOOK])
    replayed = done_of(again)

    assert again.seen[0].accepted.replayed
    assert calls_of(again) == calls_of(first)
    assert replayed.usage == done.usage
    assert counters(client) == before
    robot.end()


def test_e7_the_engines_own_span_is_a_child_of_the_turn(
    client: Client, run_folder: Path, tmp_path: Path
) -> None:
    source = start_telemetry("robot", tmp_path)
    span = source.start_span("brain.decide")
    robot = admitted(client)
    done = done_of(robot.decide(0, tools=[LOOK], trace=trace_context(span)))
    span.end()
    robot.end()

    def ours() -> dict[str, list[str | None]]:
        found: dict[str, list[str | None]] = {}
        trace_id = f"{span.context.trace_id:032x}"
        for it in read_folder(run_folder).spans:
            if it.trace_id == trace_id:
                found.setdefault(it.name, []).extend((it.span_id, it.parent_id))
        return found

    wait_until(lambda: {"llm_request", "server.decide", "server.preprocess"} <= set(ours()))
    spans = ours()
    decide_id, decide_parent = spans["server.decide"]
    assert decide_parent == f"{span.context.span_id:016x}"
    assert spans["llm_request"][1] == decide_id
    assert spans["server.preprocess"][1] == decide_id
    timing = done.timing
    parts_s = timing.queue_s + timing.preprocess_s + timing.prefill_s + timing.decode_s
    assert 0 < parts_s <= (timing.server_done_ns - timing.server_received_ns) * 1e-9
    source.shutdown()


@pytest.mark.parametrize("top_p", [float("nan"), 0.0, 1.5])
def test_a_share_that_is_none_is_refused_by_name(client: Client, top_p: float) -> None:
    robot = admitted(client)
    inbox = robot.decide(0, tools=[LOOK], sampling=brain_pb2.Sampling(top_p=top_p))

    with pytest.raises(RobotSdkError, match="top_p"):
        done_of(inbox)

    assert inbox.code is grpc.StatusCode.INVALID_ARGUMENT
    robot.end()
