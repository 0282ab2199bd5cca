"""Long silence and long blocking: connections and leases outlive them."""

from __future__ import annotations

import ctypes
import os
import re
import time

import pytest

from robot_sdk.client import connect
from robot_sdk.errors import LeaseExpiredError
from robot_sdk.messages import Message
from robot_sdk.tools import tool
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import (
    DRIVE_ALWAYS,
    FINISH,
    EpisodeThread,
    LoggingRobot,
    Tools,
    config,
    run_one,
)
from tests.integration.server.harness import Client as RawClient

#: The field's call died after 50 s; the report's clean length is 330 s: ROBOT_SDK_LONG=1.
SILENT_S = 330.0 if os.environ.get("ROBOT_SDK_LONG") == "1" else 95.0
#: The client pings every 60 s unless the server does so first. A server with gRPC's own limits
#: forgives two pings and hangs up after 180 to 240 s, so anything shorter would pass on any server.
NO_TRAFFIC_S = 330.0


class HardTools(Tools):
    """A tool that holds the interpreter's lock, as a bad C extension does.

    Attributes:
        hold_s: For how long.
    """

    hold_s = 2.0

    @tool
    def note(self) -> str:
        """Let no other Python thread run."""
        started_s = time.monotonic()
        ctypes.PyDLL(None).usleep(int(self.hold_s * 1e6))  # PyDLL keeps the lock
        assert time.monotonic() - started_s >= self.hold_s * 0.99
        return "done"


class VeryHardTools(HardTools):
    """Holds the lock for longer than the lease lives."""

    hold_s = 4.0


@pytest.mark.long
@pytest.mark.timeout(SILENT_S + 60)
def test_a2_a_silent_turn_and_an_idle_connection_stand_longer_than_pings_are_forgiven(
    start_server: Start,
) -> None:
    server = start_server(
        config([("note", {}), FINISH], delays_s=[SILENT_S, 0.0], heartbeat_interval_s=2.0)
    )
    with connect(server.address) as client, connect(server.address) as idle:
        with idle.episode(task="go", robot_id="idle") as episode:
            first = episode.id
        episode_thread = EpisodeThread(client, LoggingRobot())
        result = episode_thread.result(SILENT_S + 30)

        assert result.success
        assert result.samples[0].brain_s >= SILENT_S
        with idle.episode(task="go", robot_id="idle") as episode:
            assert episode.id != first
    assert not re.search("too_many_pings|GOAWAY", server.log, re.IGNORECASE)


@pytest.mark.long
@pytest.mark.timeout(NO_TRAFFIC_S + 60)
def test_a2_a_turn_without_any_other_traffic_survives(start_server: Start) -> None:
    """Heartbeats every 2 s forgive pings, so here there are none while the turn is silent."""
    quiet = {"heartbeat_interval_s": 600.0, "lease_ttl_s": 1300.0}
    server = start_server(config([FINISH], delays_s=[NO_TRAFFIC_S], **quiet))
    with connect(server.address) as client:
        with client.episode(task="go", robot_id="robot") as episode:
            turn = episode.decide([Message.of_text("user", "go")])
            assert turn.latency_s >= NO_TRAFFIC_S
            assert turn.num_attempts == 1
    assert not re.search("too_many_pings|GOAWAY", server.log, re.IGNORECASE)


def test_c2_a_turn_of_six_lease_times_keeps_its_lease(start_server: Start) -> None:
    ttl_s = 1.0
    server = start_server(
        config([("note", {}), FINISH], delays_s=[6 * ttl_s, 0.0], lease_ttl_s=ttl_s)
    )

    result, robot = run_one(server)

    assert result.success
    assert result.samples[0].brain_s >= 6 * ttl_s
    assert robot.num_holds > 0


def test_c2_a_tool_that_holds_the_interpreter_for_two_seconds_keeps_the_lease(
    start_server: Start,
) -> None:
    server = start_server(config([("note", {}), FINISH], lease_ttl_s=4.0))

    result, _ = run_one(server, tools=HardTools)

    assert result.success
    assert result.overrun_ticks >= 30  # skipped, not made up for


def test_c2_a_robot_whose_lease_was_lost_is_told_once_and_stops(start_server: Start) -> None:
    server = start_server(config([("note", {}), ("drive", {"steps": 20}), FINISH], lease_ttl_s=1.0))
    raw = RawClient(server.address)

    result, robot = run_one(server, tools=VeryHardTools)

    assert (result.outcome, result.reason, result.turns) == ("aborted", "episode_lost", 1)
    assert isinstance(result.error, LeaseExpiredError)
    assert robot.actions == []
    admission = raw.status().admission
    assert (admission.active_episodes, admission.expired_total) == (0, 1)
    raw.close()


def test_a3_other_robots_are_served_while_a_policy_computes(start_server: Start) -> None:
    server = start_server(config([DRIVE_ALWAYS, FINISH], policy_options={"first_delay_s": 6.0}))
    with connect(server.address) as client:
        slow = EpisodeThread(client, LoggingRobot())
        slow.wait_for(lambda state: state.start_wait_ticks >= 3)

        with connect(server.address) as other:
            with other.episode(task="go", robot_id="other") as episode:
                turn = episode.decide([Message.of_text("user", "go")])
        assert [call.name for call in turn.tool_calls] == ["drive"]
        assert slow.robot.state.acted_steps == 0, "the policy was still computing"

        slow.wait_for(lambda state: state.acted_steps > 0)
        assert slow.tools is not None
        slow.tools.enough.set()
        assert slow.result().success
