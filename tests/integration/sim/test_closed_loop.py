"""A real episode through a real server, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from robot_sdk.client import Client, connect
from server.launch.server_process import ServerProcess
from sim.closed_loop.batch import SERVER_SETTINGS
from sim.closed_loop.chunk_load import AT_ONCE, ChunkLoad
from sim.closed_loop.delays import NO_DELAYS, EpisodeDelays
from sim.closed_loop.episode import ClosedLoopRecord, run_closed_loop
from sim.libero.env import LiberoEnv

pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]

TURN_S = 4.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("server")
    with ServerProcess(SERVER_SETTINGS, folder) as server, connect(server.target) as client:
        yield client


@pytest.fixture(scope="module")
def env() -> Iterator[LiberoEnv]:
    with LiberoEnv("libero_object_swap", 1, 0, gl="off") as env:
        yield env


def run(client: Client, env: LiberoEnv, delays: EpisodeDelays, load: ChunkLoad) -> ClosedLoopRecord:
    env.reset(0)
    return run_closed_loop(client, env, delays, load, seed=0)


def test_an_episode_takes_the_time_of_its_turns_and_steps_and_is_repeatable(
    client: Client, env: LiberoEnv
) -> None:
    at_once = run(client, env, NO_DELAYS, ChunkLoad("paced", 0, table=AT_ONCE))
    again = run(client, env, NO_DELAYS, ChunkLoad("paced", 0, table=AT_ONCE))
    assert at_once.success
    assert {**vars(at_once), "wall_s": 0} == {**vars(again), "wall_s": 0}
    assert at_once.brain_s == 0.0
    assert at_once.starved_ticks == 0
    assert at_once.ended_s == pytest.approx((at_once.steps + at_once.idle_ticks) / 20.0, abs=0.06)

    slow = run(client, env, EpisodeDelays(0.0, (TURN_S,)), ChunkLoad("paced", 0))
    assert slow.brain_s == pytest.approx(TURN_S * slow.turns)
    # The world goes on in every control step of every turn.
    assert slow.idle_ticks == pytest.approx(TURN_S * 20 * slow.turns, abs=20 + slow.turns)
    assert 0 < slow.left_out_steps < slow.idle_ticks
    assert slow.chunk_latency_p50_s == pytest.approx(0.162)


def test_late_chunks_starve_the_policy_and_not_the_scripted_tools(
    client: Client, env: LiberoEnv
) -> None:
    late = run(client, env, NO_DELAYS, ChunkLoad("prefetch", 15))
    assert late.starved_ticks > 0.5 * late.policy_steps
    assert late.late_chunks > 0
    assert late.ended_s == pytest.approx((late.steps + late.idle_ticks) / 20.0, abs=0.3)
