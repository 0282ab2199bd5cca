"""The action tier in virtual time: the server's batcher and the robot's own control loop."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from server.core.batching import LatencyRow, LatencyTable
from sim.fleet.action import Fleet, FleetRun, simulate
from sim.fleet.action_robot import RobotPlan
from sim.fleet.disciplines import DISCIPLINES
from sim.fleet.network import NetworkModel
from sim.paper.cases.action_capacity import churn

SHORT_S = 12.0


def fleet(num_robots: int, hz: float, discipline: str = "paced", **options: object) -> Fleet:
    plans = tuple(RobotPlan(hz) for _ in range(num_robots))
    return Fleet(plans, discipline, **{"duration_s": SHORT_S, **options})  # type: ignore[arg-type]


def table(*rows: tuple[int, float]) -> LatencyTable:
    return LatencyTable("p", "d", "f", "m", 0, 1, tuple(LatencyRow(*row) for row in rows))


@pytest.mark.parametrize(
    ("hz", "gpus", "robots"), [(20, 1, 7), (20, 2, 14), (10, 1, 24), (10, 2, 48), (5, 1, 48)]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_paced_robots_hardly_starve_at_the_size_the_table_allows(
    hz: int, gpus: int, robots: int, seed: int
) -> None:
    outcome = simulate(fleet(robots, hz, num_gpus=gpus), seed)
    assert outcome.worst_starved_fraction <= 0.01


def test_paced_robots_begin_without_starving() -> None:
    outcome = simulate(fleet(7, 20))
    assert outcome.worst_starved_fraction == 0.0
    assert all(robot.start_wait_ticks <= 11 for robot in outcome.robots)


def test_one_robot_too_many_starves() -> None:
    assert simulate(fleet(8, 20)).worst_starved_fraction > 0.01


@pytest.mark.parametrize("discipline", ["prefetch", "on_empty", "study"])
def test_unpaced_robots_starve_where_paced_ones_do_not(discipline: str) -> None:
    assert simulate(fleet(7, 20, discipline)).worst_starved_fraction > 0.2


@pytest.mark.parametrize(("hz", "carried", "too_many"), [(20, 1, 8), (10, 8, 32), (5, 32, None)])
def test_rows_from_arrival_give_the_capacities_that_the_study_published(
    hz: int, carried: int, too_many: int | None
) -> None:
    assert simulate(fleet(carried, hz, "study")).worst_starved_fraction <= 0.01
    if too_many is not None:
        assert simulate(fleet(too_many, hz, "study")).worst_starved_fraction > 0.2


@pytest.mark.parametrize("seed", [0, 1])
def test_robots_that_come_and_go_over_a_network_with_jitter_do_not_starve(seed: int) -> None:
    outcome = simulate(
        Fleet(
            churn(6, 20, 40.0, 5.0),
            "paced",
            duration_s=40.0,
            network=NetworkModel(0.001, 0.005),
            grid_by="clock",
        ),
        seed,
    )
    assert outcome.worst_starved_fraction <= 0.01


def test_clocks_that_drift_apart_by_100_ppm_do_no_harm_within_minutes() -> None:
    plans = tuple(RobotPlan(20, clock_ppm=ppm) for ppm in (-50, -25, 0, 25, 50))
    outcome = simulate(Fleet(plans, "paced", duration_s=60.0))
    assert outcome.worst_starved_fraction == 0.0


def test_one_slow_robot_never_delays_the_others_batch() -> None:
    stalls = tuple((2.0 + 0.7 * place, 0.13) for place in range(10))
    plans = (RobotPlan(20, stalls=stalls), *[RobotPlan(20)] * 6)
    outcome = simulate(Fleet(plans, "paced", duration_s=SHORT_S))
    slow, *others = outcome.robots
    assert slow.overrun_ticks >= 10
    assert [robot.starved_ticks for robot in others] == [0] * 6


def test_a_robot_that_stalled_gets_back_onto_the_plan() -> None:
    plans = (RobotPlan(20, stalls=((3.0, 0.28),)), *[RobotPlan(20)] * 4)
    run = FleetRun(Fleet(plans, "paced", duration_s=SHORT_S))
    run.run()
    held_s = [c.at_s for c in run.robots[0].robot.commands if c.action is None and c.at_s > 2.0]
    assert held_s
    assert max(held_s) < 5.0


def test_one_fast_robot_among_slow_ones_starves_under_fifo_and_not_under_ours() -> None:
    plans = (RobotPlan(20), *[RobotPlan(5)] * 9)
    ours = simulate(Fleet(plans, "paced", duration_s=SHORT_S))
    fifo = simulate(Fleet(plans, "fifo", duration_s=SHORT_S))
    assert ours.worst_starved_fraction <= 0.01 < fifo.worst_starved_fraction
    assert ours.jain_index > fifo.jain_index


@pytest.mark.parametrize("discipline", ["paced", "prefetch", "on_empty"])
@pytest.mark.parametrize(("delay_s", "jitter_s"), [(0.0, 0.0), (0.02, 0.0), (0.005, 0.03)])
def test_b2_executed_sequence_has_no_repeat_and_no_gap(
    discipline: str, delay_s: float, jitter_s: float
) -> None:
    run = FleetRun(fleet(3, 20, discipline, network=NetworkModel(delay_s, jitter_s)))
    run.run()
    for robot in run.robots.values():
        # The row of a step is the step's number, so it must be executed at that very step.
        executed = [
            (step, float(command.action[0]))
            for step, command in enumerate(robot.robot.commands)
            if command.action is not None
        ]
        assert len(executed) > 20
        assert all(step == value for step, value in executed)


@pytest.mark.parametrize("discipline", ["paced", "prefetch"])
def test_b3_chunk_of_50_with_300_ms_inference_has_no_idle_tick_after_the_first(
    discipline: str,
) -> None:
    slow = table((1, 0.3), (8, 0.4))
    outcome = simulate(
        fleet(2, 20, discipline, horizon=50, executed_steps=25, table=slow, max_batch=8)
    )
    assert [robot.starved_ticks for robot in outcome.robots] == [0, 0]


def test_b4_inference_that_drains_the_buffer_is_counted_as_starving_and_then_goes_on() -> None:
    run = FleetRun(fleet(1, 20))
    tier = run.tier
    latency_s = tier._table.latency_s
    slow_left = [6, 1]

    def once_4_s(batch: int) -> float:
        slow_left[0] -= 1
        return 4.0 if slow_left[0] == 0 else latency_s(batch)

    tier._table = type("Table", (), {"latency_s": staticmethod(once_4_s)})()  # type: ignore[assignment]
    outcome = run.run().robots[0]
    commands = run.robots[0].robot.commands
    assert 60 <= outcome.starved_ticks <= 110
    assert all(command.action is not None for command in commands[-40:])


@pytest.mark.parametrize("gpus", [1, 2])
def test_gpus_with_more_than_they_can_do_are_busy_all_the_time_and_no_longer(gpus: int) -> None:
    outcome = simulate(fleet(32 * gpus, 20, "study", num_gpus=gpus))
    assert 0.85 < outcome.busy_fraction <= 1.0


def test_the_same_seed_gives_the_same_outcome_and_another_seed_another() -> None:
    jittery = fleet(6, 20, "prefetch", network=NetworkModel(0.001, 0.005))
    assert simulate(jittery, 3) == simulate(jittery, 3)
    assert simulate(jittery, 3) != simulate(jittery, 4)


def test_a_robot_that_never_joined_or_was_never_answered_has_nothing_to_show() -> None:
    late = dataclasses.replace(fleet(1, 20), robots=(RobotPlan(20, joins_s=99.0),))
    robot = simulate(late).robots[0]
    assert (robot.acted_ticks, robot.starved_fraction, robot.progress) == (0, 0.0, 0.0)


def test_latency_that_spreads_costs_a_smaller_fleet_nothing() -> None:
    assert simulate(fleet(4, 20, latency_spread=0.1)).worst_starved_fraction == 0.0


def test_every_discipline_says_what_it_is() -> None:
    assert all(name == d.name and d.about for name, d in DISCIPLINES.items())
    assert np.all([d.executes_late_rows == (name == "study") for name, d in DISCIPLINES.items()])
