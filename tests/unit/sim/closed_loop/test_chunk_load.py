"""Other robots at the action tier, and the clock that lets them go on."""

from __future__ import annotations

import pytest

from sim.closed_loop.chunk_load import SETTLED_S, ChunkLoad, start_fleet
from sim.closed_loop.fleet_clock import FleetClock


def test_robots_that_never_stop_keep_the_gpu_busy() -> None:
    run = start_fleet(ChunkLoad("paced", 6), 20.0, 0)
    assert run.loop.clock.now_s() == SETTLED_S
    assert len(run.robots) == 6
    assert all(robot.state().acted_steps > 40 for robot in run.robots.values())


def test_robots_with_pauses_take_their_share_of_the_time() -> None:
    run = start_fleet(ChunkLoad("prefetch", 10, running_s=2.0, pause_s=8.0), 20.0, 0)
    at_work = []
    for second in range(100):
        run.loop.run_until(SETTLED_S + second)
        at_work.append(len(run.robots))
    # 10 robots, each at work for a fifth of the time.
    assert sum(at_work) / len(at_work) == pytest.approx(2.0, abs=0.6)
    assert max(at_work) > 2


def test_the_same_seed_gives_the_same_fleet() -> None:
    load = ChunkLoad("prefetch", 5, running_s=2.0, pause_s=2.0)
    first, again, other = (start_fleet(load, 20.0, seed) for seed in (1, 1, 2))
    assert first.tier.batch_sizes == again.tier.batch_sizes
    assert first.tier.busy_s == again.tier.busy_s
    assert first.tier.busy_s != other.tier.busy_s


def test_nobody_else_leaves_the_gpu_idle() -> None:
    assert start_fleet(ChunkLoad("paced", 0), 20.0, 0).tier.busy_s == 0.0


def test_sleeping_on_the_fleets_clock_lets_the_fleet_go_on() -> None:
    run = start_fleet(ChunkLoad("paced", 1), 20.0, 0)
    clock = FleetClock(run.loop)
    before = run.robots[0].state().step
    clock.sleep_until(clock.now_s() + 1.0)
    clock.advance(1.0)
    assert run.robots[0].state().step == before + 40
    assert clock.now_s() == SETTLED_S + 2.0


def test_the_fleets_clock_never_goes_back() -> None:
    run = start_fleet(ChunkLoad("paced", 0), 20.0, 0)
    clock = FleetClock(run.loop)
    clock.sleep_until(1.0)
    assert clock.now_s() == SETTLED_S
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1.0)
