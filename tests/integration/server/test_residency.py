"""What an operator sees of the prefix cache: status, metrics page and log of a real server."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable

import grpc
import pytest

from robot_sdk.api.v1 import fleet_pb2
from tests.integration.server.harness import REPOSITORY, Client, Robot, Server, user, wait_until

Start = Callable[..., Server]
Connect = Callable[..., Client]

COUNTING = """
[server]
port = 0
roles = ["brain"]
[telemetry]
prometheus_port = 0
[brain]
engine = "factory"
factory = "tests.fakes.brains:CountingBrain"
options = {{ pool_blocks = {pool_blocks} }}
[admission]
{admission}
"""


def counting(pool_blocks: int = 1000, admission: str = "") -> str:
    return COUNTING.format(pool_blocks=pool_blocks, admission=admission)


def robots(client: Client, number: int, family: str = "sort") -> list[Robot]:
    """Admitted robots that stay alive."""
    found = []
    for index in range(number):
        robot = Robot(client, robot_id=f"robot-{index}", policies=[], task_family=family)
        robot.admitted()
        robot.keep_alive(0.5)
        found.append(robot)
    return found


def take_turns(fleet: list[Robot], num_turns: int, new_tokens: int, first: int = 0) -> None:
    """Every robot in turn, again and again."""
    for turn in range(first, first + num_turns):
        for robot in fleet:
            robot.decide(turn, [user(str(new_tokens))]).until("done")


def page(server: Server) -> str:
    found = re.search(r"metrics on (http://\S+)", server.log)
    assert found is not None
    with urllib.request.urlopen(found[1] + "/metrics", timeout=10) as response:
        return response.read().decode()


def sample(text: str, name: str) -> float:
    """The value of one series."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found is not None, f"no {name} in\n{text}"
    return float(found[1])


def brain(client: Client) -> fleet_pb2.BrainStatus:
    return client.status().brain


def test_a_healthy_fleet_shows_hits_working_set_and_pool(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(counting())
    client = connect(server)
    fleet = robots(client, 2)
    take_turns(fleet, num_turns=4, new_tokens=152)

    status = client.status()
    prefix, load = status.brain.prefix, status.brain.load

    assert (prefix.full_prefix_hit, prefix.turns_in_window) == (1.0, 6)
    assert prefix.working_set_tokens == 2 * 4 * 160
    assert prefix.working_set_blocks == 2 * 40
    assert prefix.mean_context_tokens == 640
    assert prefix.reuse_distance_blocks_p90 == 40
    assert prefix.computed_tokens_per_min > 0
    assert (load.pool_blocks, load.block_tokens, load.max_context_tokens) == (1000, 16, 50_000)
    assert not status.brain.alerts
    assert [e.context_tokens for e in status.episodes] == [640, 640]
    assert {e.task_family for e in status.episodes} == {"sort"}
    wait_until(lambda: sample(page(server), "robot_prefix_full_prefix_hit") == 1.0)
    text = page(server)
    assert sample(text, 'robot_prefix_turns_total{outcome="hit"}') == 6
    assert sample(text, 'robot_prefix_turns_total{outcome="first"}') == 2
    assert sample(text, 'robot_turn_service_seconds_count{outcome="hit"}') == 6
    assert sample(text, "robot_prefix_working_set_tokens") == 1280
    assert sample(text, "robot_engine_pool_blocks") == 1000
    computed = sample(text, "robot_turn_computed_tokens_total")
    assert computed + sample(text, "robot_turn_cached_tokens_total") == 2 * (152 + 312 + 472 + 632)


def test_the_limits_of_an_episode_name_the_longest_conversation(
    start_server: Start, connect: Connect
) -> None:
    robot = Robot(connect(start_server(counting())), policies=[])

    assert robot.admitted().limits.max_context_tokens == 50_000
    robot.drop()


def test_c3_an_ended_episode_leaves_the_working_set(start_server: Start, connect: Connect) -> None:
    client = connect(start_server(counting()))
    stays, goes = fleet = robots(client, 2)
    take_turns(fleet, num_turns=2, new_tokens=152)

    goes.end()

    assert brain(client).prefix.working_set_tokens == 320
    late = goes.decide(2, [user("152")])
    late.done.wait(10)
    assert late.error is not None
    assert brain(client).prefix.working_set_tokens == 320
    stays.end()
    assert brain(client).prefix.working_set_tokens == 0
    assert brain(client).prefix.forecast_blocks == 0


def test_a_fleet_that_thrashes_is_named_with_advice_on_status_page_log_and_terminal(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(counting(pool_blocks=200))
    client = connect(server)
    fleet = robots(client, 3)
    take_turns(fleet, num_turns=1, new_tokens=1600)
    take_turns(fleet, num_turns=5, new_tokens=1, first=1)

    (alert,) = brain(client).alerts

    assert alert.name == "working-set-thrash"
    assert "hit 0.00 of 15 turns" in alert.evidence
    assert "lower K" in alert.advice
    wait_until(lambda: sample(page(server), 'robot_alert{alert="working-set-thrash"}') == 1.0)
    assert sample(page(server), 'robot_alert{alert="queueing-thrash"}') == 0.0
    wait_until(lambda: "working-set-thrash: full-prefix hit 0.00" in server.log)
    shown = subprocess.run(
        [sys.executable, "-m", "robot_sdk", "status", server.address],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "0.0% of 15 turns found theirs whole" in shown
    assert "ALERT working-set-thrash" in shown
    assert "lower K" in shown
    assert "pool 200 blocks of 16 tokens" in shown


def test_the_working_set_policy_fills_the_pool_and_says_so(
    start_server: Start, connect: Connect
) -> None:
    client = connect(start_server(counting(1000, 'policy = "working-set"')))
    short = robots(client, 4)
    take_turns(short, num_turns=3, new_tokens=312)
    for robot in short:
        robot.end()
    # Each ended after three turns of 20 blocks. Four ends are not proof enough that all do, so a
    # young one counts as more; 0.65 of a pool of which nothing but a number is known is the room.
    inside = robots(client, 1)
    waiter = Robot(client, policies=[], task_family="sort")

    queued = waiter.inbox.until("queued")

    assert queued.reason == (
        "working set: 1 episode inside and the next one are forecast to need 871 of 650 blocks"
    )
    assert queued.HasField("expected_wait_s")
    admission_status = client.status().admission
    assert admission_status.policy == "working-set"
    assert not admission_status.HasField("cap")
    assert (admission_status.forecast_blocks, admission_status.capacity_blocks) == (537, 650)
    assert admission_status.detail == "forecast from 4 ended episodes"
    inside[0].end()
    waiter.admitted()
    waiter.drop()


def test_set_cap_moves_the_ceiling_of_aimd_and_is_refused_by_a_policy_without_one(
    start_server: Start, connect: Connect
) -> None:
    aimd = connect(start_server(counting(admission='policy = "aimd"\naimd_initial_cap = 8')))
    changed = aimd.fleet.SetCap(fleet_pb2.SetCapRequest(cap=3), timeout=10).admission
    assert (changed.policy, changed.cap) == ("aimd", 3)
    assert changed.detail.startswith("cap 3 (ceiling 3); 0 controls")

    free = connect(start_server(counting(admission='policy = "working-set"')))
    with pytest.raises(grpc.RpcError, match="no cap to set"):
        free.fleet.SetCap(fleet_pb2.SetCapRequest(cap=3), timeout=10)


def test_tenants_with_a_weight_that_is_no_number_are_named_at_the_start(
    start_server: Start,
) -> None:
    server = start_server(counting(admission='tenant_weights = { lab = "two" }'), wait=False)

    assert server.wait_for_exit() != 0
    assert "admission.tenant_weights.lab is 'two'" in server.log
