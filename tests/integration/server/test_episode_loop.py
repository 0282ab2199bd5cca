"""The whole loop over the wire: admission, turns, chunks, end."""

from __future__ import annotations

import json

import numpy as np

from robot_sdk.api.v1 import brain_pb2
from robot_sdk.tensors import decode_tensor
from tests.integration.server.harness import Robot, tool_result


def test_a_turn_streams_text_then_tool_calls_then_usage(robot: Robot) -> None:
    kinds = [m.WhichOneof("message") for m in robot.decide().rest()]

    assert kinds == ["accepted", "text", "tool_call", "done"]


def test_the_demo_planner_goes_on_from_tool_results(robot: Robot) -> None:
    first = robot.decide(0).until("tool_call")
    answer = tool_result(first.tool_call_id, first.name, '{"camera": "agentview"}')

    second = robot.decide(1, [answer]).until("tool_call")

    assert (first.name, second.name) == ("look", "scene")
    assert json.loads(first.arguments_json) == {"camera": "agentview"}


def test_usage_counts_history_and_new_part_and_says_that_it_is_estimated(robot: Robot) -> None:
    first = robot.decide(0)
    call = first.until("tool_call")
    used = first.until("done").usage
    later = robot.decide(1, [tool_result(call.tool_call_id, call.name, "x" * 40)]).until("done")

    assert used.estimated
    assert used.input_tokens == -(-len(robot.open.task) // 4)
    assert later.usage.new_tokens == 10
    assert later.usage.input_tokens == used.input_tokens + used.output_tokens + 10
    assert not used.HasField("cached_tokens")
    assert not used.HasField("computed_tokens")


def test_a_chunk_answers_its_observation_with_timing(robot: Robot) -> None:
    chunks = robot.chunks()
    spec = chunks.opened().spec

    chunks.observe(sequence=1, control_step=40)
    chunk = chunks.inbox.until("chunk")

    assert (chunk.sequence, chunk.control_step) == (1, 40)
    actions = decode_tensor(chunk.actions)
    assert actions.shape == (spec.horizon, 7)
    np.testing.assert_array_equal(actions[:, 0], np.arange(40, 50))
    assert chunk.timing.batch_size == 1
    assert chunk.timing.server_done_ns > chunk.timing.server_received_ns
    assert chunk.timing.HasField("infer_s")
    assert not chunk.timing.HasField("modelled_delay_s")
    chunks.close()


def test_ending_an_episode_tells_what_it_did(robot: Robot) -> None:
    robot.decide().rest()
    chunks = robot.chunks()
    chunks.observe(1)
    chunks.inbox.until("chunk")
    chunks.close()

    ended = robot.end()

    assert (ended.committed_turns, ended.chunks_served) == (1, 1)
    assert robot.client.status().admission.active_episodes == 0


def test_added_latency_and_brain_delay_are_labelled_modelled(start_server, connect) -> None:
    server = start_server(
        '[brain]\ndelay_s = 0.2\n[policies.fake]\nkind = "factory"\nadded_latency_s = 0.1\n'
        'factory = "tests.fakes.policies:StepPolicy"\n'
    )
    robot = Robot(connect(server))
    robot.admitted()
    chunks = robot.chunks()
    chunks.observe(1)

    turn = robot.decide().until("done")
    chunk = chunks.inbox.until("chunk")

    assert turn.timing.modelled_delay_s == 0.2
    assert turn.finish_reason == brain_pb2.FINISH_REASON_STOP
    assert chunk.timing.modelled_delay_s == 0.1
    chunks.close()
