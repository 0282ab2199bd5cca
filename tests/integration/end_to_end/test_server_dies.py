"""A server that is killed, restarted, or cut off while a real robot runs an episode."""

from __future__ import annotations

import pytest

from robot_sdk.client import connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import EpisodeLostError, LeaseExpiredError, WorkerUnavailableError
from robot_sdk.results import EpisodeResult
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import (
    BACK_WITHIN_S,
    DRIVE_ALWAYS,
    EpisodeThread,
    LoggingRobot,
    config,
    listening_port,
    sleep,
    wait_for_port,
)
from tests.integration.server.harness import Server, wait_until

pytestmark = pytest.mark.faultinjection

#: A chunk of 10 rows lasts 0.5 s; the rest is for a slow machine.
LAST_ROWS_S = 1.5


def kill(server: Server) -> float:
    """As kill -9 does; returns when."""
    server.process.kill()
    server.process.wait()
    return SYSTEM_CLOCK.now_s()


def assert_lost_in_time(episode: EpisodeThread, opened_s: float) -> EpisodeResult:
    result = episode.result()
    assert episode.ended_s - opened_s < BACK_WITHIN_S
    assert (result.outcome, result.reason) == ("aborted", "episode_lost")
    assert isinstance(result.error, EpisodeLostError)
    assert result.episode_id
    return result


def test_a6_a_server_killed_before_the_first_chunk_ends_the_episode_with_its_data(
    start_server: Start,
) -> None:
    toml = config([DRIVE_ALWAYS], policy_options={"first_delay_s": 60.0})
    server = start_server(toml)
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.start_wait_ticks >= 5)
        kill(server)
        held_before = episode.robot.num_holds
        sleep(1.0)
        assert episode.robot.num_holds > held_before

        start_server(toml, port=server.ready["port"], wait=False)
        result = assert_lost_in_time(episode, wait_for_port(server.ready["port"]))

    assert episode.robot.actions == []
    assert (result.turns, len(result.samples), result.chunks) == (1, 1, 0)
    assert result.start_wait_ticks == episode.robot.state.start_wait_ticks >= 5


@pytest.mark.parametrize(
    "away_s",
    [
        4.0,
        pytest.param(20.0, marks=pytest.mark.long),
        pytest.param(60.0, marks=pytest.mark.long),
        pytest.param(150.0, marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
def test_a5_a_robot_holds_while_the_server_is_away_and_is_back_within_five_seconds(
    start_server: Start, away_s: float
) -> None:
    toml = config([DRIVE_ALWAYS], lease_ttl_s=300.0)
    server = start_server(toml)
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 10)
        killed_s = kill(server)
        sleep(away_s)
        assert episode.is_running
        held = [at_s for at_s in episode.robot.commanded_s if at_s > killed_s + LAST_ROWS_S]
        assert len(held) > (away_s - LAST_ROWS_S) * 10  # every tick is commanded: 20 Hz less a lot

        start_server(toml, port=server.ready["port"], wait=False)
        result = assert_lost_in_time(episode, wait_for_port(server.ready["port"]))

        robot = episode.robot
        assert result.acted_steps == len(robot.executed) >= 10
        assert result.starved_ticks > 0
        assert (result.turns, len(result.samples)) == (1, 1)
        assert result.chunks >= 1
        assert max(item.at_s for item in robot.executed) < killed_s + LAST_ROWS_S
        robot.assert_every_action_was_of_its_step()

        # The client is as good as new.
        start = EpisodeThread(client, LoggingRobot())
        start.wait_for(lambda state: state.acted_steps >= 5)
        assert start.tools is not None
        assert client.server_info.boot_id != server.ready["boot_id"]


def test_a_server_that_stays_away_ends_the_episode_when_its_lease_is_over(
    start_server: Start,
) -> None:
    server = start_server(config([DRIVE_ALWAYS], lease_ttl_s=2.0))
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 5)
        killed_s = kill(server)

        result = episode.result()

    assert (result.outcome, result.reason) == ("aborted", "episode_lost")
    assert isinstance(result.error, LeaseExpiredError)
    assert episode.ended_s - killed_s < 2.0 + 1.0 + BACK_WITHIN_S  # lease, margin, telling the end
    assert result.acted_steps == len(episode.robot.executed) >= 5


def test_a_server_killed_during_a_brain_turn_ends_the_episode(start_server: Start) -> None:
    toml = config([DRIVE_ALWAYS], delays_s=[60.0])
    server = start_server(toml)
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.idle_ticks >= 5)
        kill(server)
        start_server(toml, port=server.ready["port"], wait=False)

        result = assert_lost_in_time(episode, wait_for_port(server.ready["port"]))

    assert (result.turns, result.env_steps) == (0, 0)
    assert result.idle_ticks >= 5


def test_a_robot_that_was_queued_is_admitted_by_the_server_that_comes_back(
    start_server: Start,
) -> None:
    busy = config([DRIVE_ALWAYS], cap=1)
    server = start_server(busy)
    with connect(server.address) as client, connect(server.address) as other:
        first = EpisodeThread(client, LoggingRobot(), robot_id="first")
        first.wait_for(lambda state: state.acted_steps >= 1)
        second = EpisodeThread(other, LoggingRobot(), robot_id="second")
        wait_until(lambda: second.queued == [1])
        kill(server)
        sleep(1.0)

        start_server(config(cap=1), port=server.ready["port"], wait=False)
        opened_s = wait_for_port(server.ready["port"])

        assert isinstance(first.result().error, EpisodeLostError)
        wait_until(lambda: second.tools is not None)
        assert SYSTEM_CLOCK.now_s() - opened_s < BACK_WITHIN_S
        assert second.result().success


def test_a6_an_episode_begun_while_the_policy_loads_succeeds(start_server: Start) -> None:
    toml = config(policy="tests.fakes.scripted:LateLoadPolicy", policy_options={"load_s": 3.0})
    server = start_server(toml, wait=False)

    port = listening_port(server)
    with pytest.raises(WorkerUnavailableError, match=r"still loading.*fake"):
        connect(f"127.0.0.1:{port}", connect_timeout_s=0.1)
    with connect(f"127.0.0.1:{port}", connect_timeout_s=60.0) as client:
        assert EpisodeThread(client, LoggingRobot()).result().success


def test_a6_a_server_killed_while_it_loads_is_found_when_it_is_there(start_server: Start) -> None:
    slow = config(policy="tests.fakes.scripted:LateLoadPolicy", policy_options={"load_s": 1.0})
    server = start_server(slow)
    port = server.ready["port"]
    kill(server)
    loading = start_server(slow, port=port, wait=False)
    sleep(0.5)
    kill(loading)
    start_server(slow, port=port, wait=False)

    with connect(f"127.0.0.1:{port}", connect_timeout_s=60.0) as client:
        assert EpisodeThread(client, LoggingRobot()).result().success
