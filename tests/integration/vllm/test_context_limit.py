"""Conversations that reach the model's limit, on a real engine that may drop old turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import ContextLimitError
from tests.integration.server.harness import Client, Server, user, wait_until
from tests.integration.vllm.serving import (
    LOOK,
    admitted,
    calls_of,
    done_of,
    keeps_prefix,
    results_of,
    serving,
    toml,
)

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

MAX_MODEL_LEN = 1024


@pytest.fixture(scope="module")
def server(text_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    configuration = toml(
        text_model,
        tool_calls="required",
        max_model_len=MAX_MODEL_LEN,
        max_output_tokens=128,
        context_policy="compact",
        num_gpu_blocks_override=256,
    )
    with serving(tmp_path_factory.mktemp("server"), configuration) as server:
        yield server


def test_d8_old_turns_are_dropped_rarely_and_no_turn_fails(client: Client) -> None:
    robot = admitted(client)
    dones = []
    messages, tools = [user("find the milk")], [LOOK]
    for turn_index in range(25):
        inbox = robot.decide(turn_index, messages, tools=tools)
        dones.append(done_of(inbox))
        assert [call.name for call in calls_of(inbox)] in (["look"], [""])
        messages, tools = results_of(inbox, "nothing there. " * 5), []
    robot.end()

    rebuilds = [done for done in dones if done.dropped_turns]
    assert 1 <= len(rebuilds) <= 6
    assert all(done.usage.input_tokens < MAX_MODEL_LEN for done in dones)
    for before, after in zip(dones, dones[1:], strict=False):
        previous = before.usage.input_tokens + before.usage.output_tokens
        expected = after.usage.input_tokens - after.usage.new_tokens
        assert expected == previous or after.dropped_turns
        assert keeps_prefix(after.usage)


def test_d8_a_turn_that_fits_in_no_way_ends_the_episode_and_frees_its_place(
    client: Client,
) -> None:
    robot = admitted(client)
    inbox = robot.decide(0, tools=[LOOK])
    done_of(inbox)
    too_long = results_of(inbox, "Q" * 2 * MAX_MODEL_LEN)

    with pytest.raises(ContextLimitError):
        done_of(robot.decide(1, too_long))

    revoked = robot.inbox.until("revoked")
    assert revoked.error.reason == common_pb2.ERROR_REASON_CONTEXT_LIMIT
    wait_until(lambda: client.status().admission.active_episodes == 0)
    with pytest.raises(ContextLimitError):
        done_of(robot.decide(1, results_of(inbox, "short")))
