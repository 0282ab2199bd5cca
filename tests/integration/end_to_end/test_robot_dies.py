"""Robots that are killed or whose own code fails must not keep a slot of the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from robot_sdk.client import Client, connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.loop_state import LoopState
from robot_sdk.results import AgentEnd, Verdict
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.tools import ToolRegistry, finish, tool
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import (
    DRIVE_ALWAYS,
    EpisodeThread,
    LoggingRobot,
    RobotProcess,
    Tools,
    config,
)
from tests.integration.server.harness import Client as RawClient
from tests.integration.server.harness import Server, wait_until

TTL_S = 2.0
ONE_PLACE = config([DRIVE_ALWAYS], cap=1, lease_ttl_s=TTL_S)


@pytest.mark.faultinjection
def test_c1_a_robot_killed_in_mid_episode_frees_its_slot_for_the_waiter(
    start_server: Start,
) -> None:
    server = start_server(ONE_PLACE)
    with RobotProcess(server.address) as first:
        first.until("acted")
        with RobotProcess(server.address) as second:
            assert second.until("queued")["position"] == 1

            first.kill()
            killed_s = SYSTEM_CLOCK.now_s()
            second.until("admitted")

            assert SYSTEM_CLOCK.now_s() - killed_s <= TTL_S + 1.0
            second.until("acted")


@pytest.mark.faultinjection
def test_c1_a_robot_killed_while_queued_is_passed_over(start_server: Start) -> None:
    server = start_server(ONE_PLACE)
    with RobotProcess(server.address) as first, connect(server.address) as client:
        first.until("acted")
        with RobotProcess(server.address) as second:
            assert second.until("queued")["position"] == 1
            third = EpisodeThread(client, LoggingRobot())
            wait_until(lambda: third.queued[-1:] == [2])

            second.kill()
            wait_until(lambda: third.queued[-1:] == [1])
        first.kill()
        killed_s = SYSTEM_CLOCK.now_s()
        wait_until(lambda: third.tools is not None)

        assert SYSTEM_CLOCK.now_s() - killed_s <= TTL_S + 1.0


class Nasty(Exception):
    """What the user's own code raises."""


def fail(*_: object) -> ToolRegistry:
    raise Nasty


class NastyTools(Tools):
    """Raises in a tool."""

    @tool
    def drive(self, steps: int, instruction: str = "go") -> None:
        """Raise what ends programs."""
        raise KeyboardInterrupt


def good_tools(running: RunningEpisode) -> ToolRegistry:
    return ToolRegistry(Tools(running), finish)


def nasty_tools(running: RunningEpisode) -> ToolRegistry:
    return ToolRegistry(NastyTools(running), finish)


def in_tools(client: Client) -> None:
    run_episode(client, LoggingRobot(), fail, "go", EpisodeOptions(policies=("fake",)))


def in_first_images(client: Client) -> None:
    options = EpisodeOptions(policies=("fake",))
    run_episode(client, LoggingRobot(), good_tools, "go", options, first_images=fail)


def in_judge(client: Client) -> None:
    def judge(_: AgentEnd) -> Verdict:
        raise Nasty

    options = EpisodeOptions(policies=("fake",))
    run_episode(client, LoggingRobot(), good_tools, "go", options, judge=judge)


def by_ctrl_c_in_a_tool(client: Client) -> None:
    run_episode(client, LoggingRobot(), nasty_tools, "go", EpisodeOptions(policies=("fake",)))


def in_the_with_block(client: Client) -> None:
    with client.episode(task="go", robot_id="robot"):
        raise Nasty


@pytest.mark.parametrize(
    "break_off", [in_tools, in_first_images, in_judge, by_ctrl_c_in_a_tool, in_the_with_block]
)
def test_c1_an_exception_in_the_users_code_gives_the_slot_back_at_once(
    one_place_for_all: Server, break_off: Callable[[Client], None]
) -> None:
    raw = RawClient(one_place_for_all.address)
    with connect(one_place_for_all.address) as client:
        with pytest.raises((Nasty, KeyboardInterrupt)):
            break_off(client)

        assert raw.status().admission.active_episodes == 0
    raw.close()


@pytest.fixture(scope="module")
def one_place_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(
        tmp_path_factory.mktemp("server"),
        config(cap=1, lease_ttl_s=60.0),
        *("--set", "server.port=0"),
    )
    yield server
    server.close()


def test_c1_a_state_callback_that_raises_does_not_end_the_episode(
    one_place_for_all: Server,
) -> None:
    robot = LoggingRobot()

    def on_state(_: LoopState) -> None:
        raise Nasty

    with connect(one_place_for_all.address) as client:
        result = run_episode(
            client,
            robot,
            good_tools,
            "go",
            EpisodeOptions(policies=("fake",)),
            on_state=on_state,
        )

    assert result.success
    assert result.acted_steps == len(robot.actions) > 0


def test_c1_an_exception_in_on_queued_leaves_the_queue(one_place_for_all: Server) -> None:
    raw = RawClient(one_place_for_all.address)
    with connect(one_place_for_all.address) as client:
        with client.episode(task="go", robot_id="first"), pytest.raises(Nasty):
            with client.episode(task="go", robot_id="second", on_queued=fail):
                pytest.fail("must not be admitted")
        wait_until(lambda: raw.status().admission.queued_episodes == 0)
        assert raw.status().admission.active_episodes == 0
    raw.close()


@pytest.mark.faultinjection
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a10_two_hundred_forks_leave_the_parents_episode_alone(start_server: Start) -> None:
    server = start_server(config([DRIVE_ALWAYS, ("finish", {"success": True})]))
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 5)
        before = episode.robot.state

        for _ in range(200):
            child = os.fork()
            if child == 0:
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

        after = episode.robot.state
        episode.wait_for(lambda state: state.acted_steps >= after.acted_steps + 20)
        assert after.step > before.step
        assert episode.tools is not None
        episode.tools.enough.set()
        result = episode.result()

    assert result.success
    episode.robot.assert_every_action_was_of_its_step()
