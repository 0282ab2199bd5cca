"""Admission, leases and the end of episodes, with robots that die, return and overstay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from robot_sdk.api.v1 import common_pb2, episode_pb2, fleet_pb2
from robot_sdk.errors import (
    DrainingError,
    EpisodeEndedError,
    EpisodeError,
    EpisodeLostError,
    EpisodeUnknownError,
    FencedError,
    InvalidArgumentError,
    LeaseExpiredError,
    OverloadedError,
    UnauthenticatedError,
    UnsupportedError,
    from_detail,
)
from tests.integration.server.conftest import ENGINES
from tests.integration.server.harness import REPOSITORY, Client, Robot, Server, wait_until

TTL_S = 1.0
ONE_PLACE = f"""
[admission]
policy = "static-cap"
cap = 1
[episodes]
lease_ttl_s = {TTL_S}
heartbeat_interval_s = 0.2
{ENGINES}
"""

#: A robot as a process of its own, to be killed.
ROBOT = """
import sys
from tests.integration.server.harness import Client, Robot
robot = Robot(Client(sys.argv[1]), robot_id="victim")
robot.keep_alive()
print(robot.inbox.until(sys.argv[2]).WhichOneof is not None, flush=True)
sys.stdin.read()
"""


def victim(server: Server, until: str) -> subprocess.Popen[bytes]:
    """A robot process that has been told `until`."""
    process = subprocess.Popen(
        [sys.executable, "-c", ROBOT, server.address, until],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


@pytest.mark.faultinjection
def test_c1_a_robot_killed_while_admitted_frees_its_slot_within_a_lease_time(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    server = start_server(ONE_PLACE)
    dead = victim(server, "admitted")
    waiter = Robot(connect(server))
    waiter.keep_alive()
    assert waiter.inbox.until("queued").position == 1

    killed_s = time.monotonic()
    kill(dead)
    waiter.admitted()

    assert time.monotonic() - killed_s <= TTL_S + 1.0
    admission = waiter.client.status().admission
    assert (admission.active_episodes, admission.expired_total) == (1, 1)
    waiter.drop()


@pytest.mark.faultinjection
def test_c1_a_robot_killed_while_queued_loses_its_place(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    server = start_server(ONE_PLACE)
    client = connect(server)
    first = Robot(client)
    first.admitted()
    first.keep_alive()
    dead = victim(server, "queued")
    last = Robot(client)
    last.keep_alive()
    assert last.inbox.until("queued").position == 2

    kill(dead)

    assert last.inbox.until("queued").position == 1
    first.end()
    last.admitted()
    last.drop()


def test_the_queue_tells_position_and_wait_once_it_is_known(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    client = connect(start_server(ONE_PLACE))
    first = Robot(client)
    first.admitted()
    second = Robot(client)
    second.inbox.until("queued")
    third = Robot(client)
    for robot in (first, second, third):
        robot.keep_alive()
    unknown = third.inbox.until("queued")
    first.end()

    second.admitted()
    known = third.inbox.until("queued")

    assert (unknown.position, unknown.num_waiting) == (2, 2)
    assert not unknown.HasField("expected_wait_s")
    assert (known.position, known.num_waiting) == (1, 1)
    assert known.HasField("expected_wait_s")
    assert "static cap 1" in known.reason
    for robot in (second, third):
        robot.drop()


def test_opening_again_after_a_lost_stream_joins_the_same_place(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    client = connect(start_server(ONE_PLACE))
    first = Robot(client)
    first.admitted()
    first.keep_alive()
    second = Robot(client)
    second.inbox.until("queued")

    second.drop()
    second.reopen()
    second.keep_alive()

    assert second.inbox.until("queued").position == 1
    assert client.status().admission.queued_episodes == 1
    first.end()
    second.admitted()
    second.drop()


def test_opening_again_when_admitted_gives_the_same_episode_with_a_newer_epoch(
    robot: Robot,
) -> None:
    before = robot.reference.episode_id
    old = robot.inbox

    robot.reopen()
    admitted = robot.admitted()

    assert (admitted.episode_id, admitted.epoch) == (before, 2)
    revoked = old.until("revoked")
    assert isinstance(from_detail(revoked.error), FencedError)
    assert robot.client.status().admission.active_episodes == 1


def test_a_resumed_episode_knows_its_committed_turns(robot: Robot) -> None:
    robot.decide().rest()
    robot.drop()

    robot.resume()

    assert robot.inbox.until("admitted").committed_turns == 1


def test_a_lost_stream_does_not_end_the_lease_but_silence_does(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    robot = Robot(connect(start_server(ONE_PLACE)))
    robot.admitted()

    robot.drop()
    assert robot.client.status().episodes[0].episode_id == robot.reference.episode_id
    wait_until(lambda: robot.client.status().admission.active_episodes == 0)

    with pytest.raises(LeaseExpiredError):
        robot.decide().rest()


def test_a_robot_without_heartbeats_is_revoked_once_and_its_stream_ends(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    robot = Robot(connect(start_server(ONE_PLACE)))
    robot.admitted()

    revoked = robot.inbox.until("revoked")

    assert isinstance(from_detail(revoked.error), LeaseExpiredError)
    assert robot.inbox.rest() == []


def test_c2_a_turn_of_six_lease_times_keeps_its_lease_by_heartbeats(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    robot = Robot(
        connect(start_server(f"[brain]\ndelay_s = {6 * TTL_S}\n{ONE_PLACE}")), policies=[]
    )
    robot.admitted()
    robot.keep_alive(0.2)

    assert robot.decide().rest()[-1].WhichOneof("message") == "done"
    assert robot.client.status().admission.active_episodes == 1
    robot.drop()


def test_c3_late_messages_to_an_ended_episode_never_resurrect_it(robot: Robot) -> None:
    robot.end()

    robot.resume()
    with pytest.raises(EpisodeEndedError):
        robot.inbox.next()
    robot.reopen()
    with pytest.raises(EpisodeEndedError):
        robot.inbox.next()
    with pytest.raises(EpisodeEndedError):
        robot.decide().rest()
    with pytest.raises(EpisodeEndedError):
        robot.chunks().opened()
    request = fleet_pb2.EndEpisodeRequest(episode_id=robot.reference.episode_id)
    with pytest.raises(EpisodeError):
        raise_sdk(lambda: robot.client.fleet.EndEpisode(request))
    status = robot.client.status()
    assert (status.admission.active_episodes, len(status.episodes)) == (0, 0)


def test_c6_a_chunk_stream_ends_with_its_episode(robot: Robot) -> None:
    chunks = robot.chunks()
    chunks.opened()
    robot.end()

    with pytest.raises(Exception, match="ended by its robot"):
        chunks.inbox.rest()


def test_an_episode_of_an_earlier_process_is_lost(robot: Robot) -> None:
    robot.reference.server_boot_id = "another"

    with pytest.raises(EpisodeLostError):
        robot.decide().rest()


def test_an_unknown_episode_and_a_wrong_secret_are_told_apart(robot: Robot) -> None:
    right = common_pb2.EpisodeRef.FromString(robot.reference.SerializeToString())
    robot.reference.episode_id = "nobody"
    with pytest.raises(EpisodeUnknownError):
        robot.decide().rest()
    robot.reference.CopyFrom(right)
    robot.reference.episode_secret = "wrong"
    with pytest.raises(UnauthenticatedError):
        robot.decide().rest()


def test_heartbeats_are_acknowledged_and_their_state_is_shown(robot: Robot) -> None:
    robot.stop_heartbeats()
    time.sleep(0.3)
    robot.heartbeat(control_step=77, tool="policy_pick", buffered_steps=4)

    ack = robot.inbox.until("heartbeat_ack")

    assert ack.robot_sent_ns == 123
    assert ack.lease_remaining_s > 0
    wait_until(lambda: robot.client.status().episodes[0].robot_state.control_step == 77)
    assert robot.client.status().episodes[0].robot_state.tool == "policy_pick"


@pytest.mark.parametrize(
    "text", ["机器人-七", "🦾🤖", "line\nbreak\ttab", "", "x" * 20_000], ids=str.__len__
)
def test_a13_any_text_makes_the_round_trip_in_message_bodies(
    start_server: Callable[..., Server], connect: Callable[..., Client], text: str
) -> None:
    client = connect(start_server())
    robot = Robot(client, robot_id=text, task=text, run_id=text, task_family=text)
    robot.admitted()

    (shown,) = client.status().episodes

    assert (shown.robot_id, shown.task) == (text, text)
    chunks = robot.chunks(instruction=text)
    chunks.opened()
    chunks.observe(1)
    chunks.inbox.until("chunk")
    chunks.close()
    robot.drop()


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"open_id": "x" * 300}, InvalidArgumentError, "open_id"),
        ({"labels": {str(i): "" for i in range(33)}}, InvalidArgumentError, "labels"),
        ({"labels": {"k" * 65: ""}}, InvalidArgumentError, "labels"),
        ({"labels": {"k": "v" * 65_537}}, InvalidArgumentError, "labels"),
        ({"robot_id": "r" * 65_537}, InvalidArgumentError, "robot_id"),
        ({"task": "t" * ((1 << 20) + 1)}, InvalidArgumentError, "task"),
        ({"policies": ["flow"]}, UnsupportedError, "allowed: fake"),
    ],
)
def test_a_bad_open_names_the_field(
    robot: Robot, fields: dict[str, object], error: type[Exception], words: str
) -> None:
    other = Robot(robot.client, **fields)

    with pytest.raises(error, match=words):
        other.inbox.next()
    assert robot.client.status().admission.active_episodes == 1


def test_a_robot_that_the_policy_was_not_trained_for_is_refused_at_the_door(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    client = connect(start_server(ENGINES + 'options = {embodiments = ["panda"]}'))

    with pytest.raises(UnsupportedError, match=r"embodiment.*got test\); allowed: panda"):
        Robot(client).inbox.next()
    assert client.status().admission.active_episodes == 0
    without = Robot(client, policies=[])
    without.admitted()
    without.drop()


def test_a_stream_must_begin_with_open_or_resume(robot: Robot) -> None:
    call = robot.client.episodes.Run(
        iter([episode_pb2.RunRequest(heartbeat=episode_pb2.Heartbeat(sequence=1))])
    )

    with pytest.raises(InvalidArgumentError, match="open, resume"):
        raise_sdk(lambda: list(call))


def test_a_full_queue_is_told_as_overload(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    toml = ONE_PLACE.replace("[episodes]", "[episodes]\nmax_waiting = 0")
    client = connect(start_server(toml.replace("cap = 1", "cap = 0")))

    with pytest.raises(OverloadedError, match="max_waiting"):
        Robot(client).inbox.next()


def test_the_cap_can_be_set_while_running(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    client = connect(start_server(ONE_PLACE))
    first = Robot(client)
    first.admitted()
    second = Robot(client)
    for robot in (first, second):
        robot.keep_alive()
    second.inbox.until("queued")

    admission = client.fleet.SetCap(fleet_pb2.SetCapRequest(cap=2)).admission

    second.admitted()
    assert (admission.cap, admission.active_episodes) == (2, 2)
    for robot in (first, second):
        robot.drop()


def test_draining_lets_those_inside_end_and_sends_the_others_away(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    server = start_server(ONE_PLACE)
    client = connect(server)
    inside = Robot(client)
    inside.admitted()
    outside = Robot(client)
    for robot in (inside, outside):
        robot.keep_alive()
    outside.inbox.until("queued")

    server.signal(signal.SIGTERM)

    assert inside.inbox.until("draining").deadline_s == pytest.approx(30.0, abs=1.0)
    refused = from_detail(outside.inbox.until("revoked").error)
    assert isinstance(refused, DrainingError)
    assert refused.retry_after_s is not None
    with pytest.raises(DrainingError):
        Robot(client).inbox.next()
    assert inside.decide().rest()[-1].WhichOneof("message") == "done"
    assert inside.end().committed_turns == 1
    assert server.wait_for_exit(10.0) == 0


def test_a_drain_ends_at_its_deadline_whoever_is_inside(
    start_server: Callable[..., Server], connect: Callable[..., Client]
) -> None:
    server = start_server(ONE_PLACE)
    robot = Robot(connect(server))
    robot.admitted()
    robot.keep_alive()

    robot.client.fleet.Drain(fleet_pb2.DrainRequest(deadline_s=0.5, reason="update"))

    assert robot.inbox.until("draining").reason == "update"
    assert "shut down" in robot.inbox.until("revoked").error.message
    robot.stop_heartbeats()
    assert server.wait_for_exit(10.0) == 0


def raise_sdk(call: Callable[[], object]) -> None:
    """Run a call and raise its failure as the SDK's error."""
    import grpc

    from robot_sdk.errors import from_rpc_error

    try:
        call()
    except grpc.RpcError as error:
        raise from_rpc_error(error) from None
