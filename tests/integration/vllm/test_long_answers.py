"""Turns that would go on for long: cancelled, cut off, killed. The last tests end the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from robot_sdk.api.v1 import brain_pb2, common_pb2, fleet_pb2
from robot_sdk.errors import (
    CancelledByServerError,
    DeadlineExceededError,
    EpisodeLostError,
    RobotSdkError,
)
from tests.integration.server.harness import REPOSITORY, Client, Server, user, wait_until
from tests.integration.vllm.serving import (
    LOAD_PATIENCE_S,
    ReturnedRobot,
    admitted,
    brain_of,
    counters,
    done_of,
    now_s,
    running_turns,
    serving,
    toml,
)

psutil = pytest.importorskip("psutil", reason="comes with vLLM; see `make setup`")

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.faultinjection]

LEASE_TTL_S = 15.0
#: The bound on generation behind the broken stream of a robot that was killed.
STOPS_WITHIN_S = 2.0
#: The same where it is not what the test is about.
STOPS_SOON_S = 10.0
SHORT = brain_pb2.Sampling(max_output_tokens=16)
BRAIN = health_pb2.HealthCheckRequest(service="robot_sdk.api.v1.BrainService")


@pytest.fixture(scope="module")
def server(text_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    configuration = toml(
        text_model,
        '[vllm.engine_args]\nlogits_processors = ["tests.fakes.endless:Endless"]',
        lease_ttl_s=LEASE_TTL_S,
        tool_calls="off",
        tool_call_parser="",
        # Long enough that no answer ends by itself before a test has done what it is about.
        max_output_tokens=15_000,
        max_num_seqs=1,
    )
    with serving(tmp_path_factory.mktemp("server"), configuration) as server:
        yield server


def is_idle(client: Client) -> bool:
    """Nothing runs and nothing holds blocks, by the engine's own word."""
    brain = brain_of(client)
    return (
        brain.running_turns == 0
        and brain.load.requests_running == 0
        and brain.load.kv_cache_usage == 0.0
    )


def assert_stands_still(client: Client) -> None:
    """No token is made any more."""
    generated = counters(client)[2]
    waited_until_s = now_s() + 0.5
    wait_until(lambda: now_s() >= waited_until_s)
    assert counters(client)[2] == generated


def test_a7_ten_cancelled_turns_leave_nothing_running_and_the_next_one_is_served(
    client: Client,
) -> None:
    robots = [admitted(client) for _ in range(10)]
    inboxes = [robot.decide(0, timeout_s=None) for robot in robots]
    inboxes[0].until("text")
    wait_until(lambda: running_turns(client) + brain_of(client).waiting_turns == 10)

    for inbox in inboxes:
        inbox.call.cancel()
    wait_until(lambda: is_idle(client), STOPS_SOON_S)
    assert_stands_still(client)
    assert done_of(robots[0].decide(0, sampling=SHORT)).usage.output_tokens == 16
    for robot in robots:
        robot.end()


def test_the_turn_whose_robot_runs_out_first_is_taken_first(client: Client) -> None:
    busy, patient, urgent = (admitted(client) for _ in range(3))
    in_the_way = busy.decide(0, timeout_s=None)
    in_the_way.until("text")
    first_asked = patient.decide(0, sampling=SHORT, slack_s=60.0)
    first_asked.until("accepted")
    last_asked = urgent.decide(0, sampling=SHORT, slack_s=1.0)
    last_asked.until("accepted")
    wait_until(lambda: brain_of(client).waiting_turns == 2)

    in_the_way.call.cancel()

    first_done = done_of(last_asked).timing.server_done_ns
    assert first_done < done_of(first_asked).timing.server_done_ns
    for robot in (busy, patient, urgent):
        robot.end()


def test_c2_an_answer_that_takes_longer_than_the_lease_keeps_it(client: Client) -> None:
    robot = admitted(client)
    inbox = robot.decide(0, timeout_s=None)
    inbox.until("text")
    lease_is_over_s = now_s() + 1.5 * LEASE_TTL_S
    wait_until(lambda: now_s() >= lease_is_over_s)

    def is_renewed() -> bool:
        assert not inbox.done.is_set(), inbox.ending
        (remaining_s,) = (
            episode.lease_remaining_s
            for episode in client.status().episodes
            if episode.episode_id == robot.reference.episode_id
        )
        return remaining_s > LEASE_TTL_S / 2

    wait_until(is_renewed)
    assert running_turns(client) == 1
    inbox.call.cancel()
    robot.end()


def test_a8_a_turn_of_an_episode_that_an_operator_ends_is_cancelled_within_a_second(
    client: Client,
) -> None:
    robot = admitted(client)
    inbox = robot.decide(0, timeout_s=None)
    inbox.until("text")

    ended_s = now_s()
    client.fleet.EndEpisode(
        fleet_pb2.EndEpisodeRequest(episode_id=robot.reference.episode_id), timeout=10
    )
    with pytest.raises(CancelledByServerError):
        inbox.until("done")

    assert now_s() - ended_s < 1.0
    wait_until(lambda: is_idle(client), STOPS_SOON_S)


def test_a_turn_that_passes_its_deadline_stops_in_the_engine(client: Client) -> None:
    robot = admitted(client)
    inbox = robot.decide(0, timeout_s=None, deadline_s=1.0)

    with pytest.raises(DeadlineExceededError):
        inbox.until("done")

    wait_until(lambda: is_idle(client), STOPS_SOON_S)
    robot.end()


def test_c6_nothing_of_a_dropped_turn_reaches_the_next_episode(client: Client) -> None:
    old = admitted(client)
    dropped = old.decide(0, timeout_s=None)
    dropped.until("text")
    old.drop()
    dropped.call.cancel()

    new = admitted(client)
    again = done_of(new.decide(0, sampling=SHORT))

    assert again.usage.output_tokens == 16
    assert again.usage.new_tokens == again.usage.input_tokens
    new.end()


def test_d7_a_killed_robots_answer_stops_and_one_that_comes_back_runs_the_turn_again(
    client: Client, server: Server
) -> None:
    with dying_robot(server) as (process, reference):
        killed_s = now_s()
        process.kill()
        process.wait()
    stopped_s = wait_until(lambda: is_idle(client))
    assert stopped_s < STOPS_WITHIN_S
    assert_stands_still(client)

    robot = ReturnedRobot(client, reference)
    robot.keep_alive(0.2)
    again = done_of(robot.decide(1, [user("tell me a story")], sampling=SHORT))

    assert now_s() - killed_s < LEASE_TTL_S
    history = again.usage.input_tokens - again.usage.new_tokens
    assert again.usage.cached_tokens >= history - 32 > 0
    robot.end()


def test_d7_a_killed_robots_slot_is_free_within_a_lease_time(
    client: Client, server: Server
) -> None:
    def episodes() -> set[str]:
        return {episode.episode_id for episode in client.status().episodes}

    with dying_robot(server) as (process, reference):
        assert reference.episode_id in episodes()
        process.kill()
        process.wait()

    waited_s = wait_until(lambda: reference.episode_id not in episodes())

    assert waited_s < LEASE_TTL_S + 1.0
    assert is_idle(client)


def test_a_dead_engine_ends_its_episodes_with_a_reason_and_another_takes_its_place(
    client: Client, server: Server
) -> None:
    lost, fresh = admitted(client), admitted(client)
    done_of(lost.decide(0, sampling=SHORT))
    inbox = fresh.decide(0, timeout_s=None)
    inbox.until("text")
    (engine,) = [pid for pid, name in processes_below(server).items() if "EngineC" in name]

    os.kill(engine, signal.SIGKILL)
    with pytest.raises(RobotSdkError, match="brain is"):
        inbox.until("done")
    revoked = lost.inbox.until("revoked")

    assert revoked.error.reason == common_pb2.ERROR_REASON_EPISODE_LOST
    assert not brain_of(client).ready
    health = health_pb2_grpc.HealthStub(client.channel)
    wait_until(lambda: health.Check(BRAIN).status == health_pb2.HealthCheckResponse.NOT_SERVING)
    with pytest.raises(EpisodeLostError):
        done_of(lost.decide(1, [user("go on")]))
    wait_until(lambda: brain_of(client).ready, LOAD_PATIENCE_S)
    wait_until(lambda: health.Check(BRAIN).status == health_pb2.HealthCheckResponse.SERVING)
    # A first turn had nothing to lose and is simply asked for again.
    assert done_of(fresh.decide(0, sampling=SHORT)).usage.output_tokens == 16
    fresh.end()
    new = admitted(client)
    assert done_of(new.decide(0, sampling=SHORT)).usage.output_tokens == 16
    new.end()


def test_sigterm_lets_a_turn_finish_or_ends_it_with_a_reason_and_leaves_no_process(
    client: Client, server: Server
) -> None:
    robot, other = admitted(client), admitted(client)
    inbox = robot.decide(0, sampling=brain_pb2.Sampling(max_output_tokens=256), timeout_s=None)
    inbox.until("text")
    below = processes_below(server)

    server.signal(signal.SIGTERM)
    robot.inbox.until("draining")
    assert done_of(inbox).usage.output_tokens == 256
    robot.end()
    endless = other.decide(0, timeout_s=None)
    endless.until("text")
    # A second signal ends the drain.
    server.signal(signal.SIGINT)
    with pytest.raises(CancelledByServerError, match="shut down"):
        endless.until("done")

    assert server.wait_for_exit() == 0
    assert any("EngineC" in name for name in below.values())
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in below))


@contextmanager
def dying_robot(server: Server) -> Iterator[tuple[subprocess.Popen[str], common_pb2.EpisodeRef]]:
    """A robot process in mid-answer, and the reference of its episode."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.vllm.dying_robot", server.address],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, common_pb2.EpisodeRef(**json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def processes_below(server: Server) -> dict[int, str]:
    """Name by pid of all that the server started."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return {child.pid: child.name() for child in children}
