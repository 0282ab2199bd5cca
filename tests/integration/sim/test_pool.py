"""Robots that crash or hang cost their own episode and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from sim.cli.plan import Job, RobotSettings
from sim.cli.pool import Event, RobotPool
from sim.cli.record import EpisodeRecord

pytestmark = pytest.mark.sim

FAKE_ROBOT = Path(__file__).with_name("_fake_robot.py")
SUCCEEDS, CRASHES, FALLS_SILENT, STANDS_STILL, WAITS_AT_THE_DOOR = range(5)


@pytest.fixture
def settings(tmp_path: Path) -> RobotSettings:
    return RobotSettings(
        target="unused",
        run_id="test",
        seed=0,
        pace="lockstep",
        max_steps=10,
        suite_limits=False,
        with_images=False,
        with_video=False,
        run_folder=str(tmp_path),
    )


def pool(
    settings: RobotSettings, num_robots: int, events: list[Event], silent_timeout_s: float = 60.0
) -> RobotPool:
    return RobotPool(
        settings,
        num_robots,
        events.append,
        command=lambda name: [sys.executable, str(FAKE_ROBOT), name],
        silent_timeout_s=silent_timeout_s,
        stuck_timeout_s=1.0,
    )


def jobs(*tasks: int) -> list[Job]:
    return [Job("libero_object_swap", task, init) for init, task in enumerate(tasks)]


def reasons(records: Iterable[EpisodeRecord]) -> list[tuple[int, str]]:
    return sorted((record.task, record.reason) for record in records)


def test_every_episode_gets_a_record_also_with_more_robots_than_episodes(
    settings: RobotSettings,
) -> None:
    with pool(settings, 4, []) as robots:
        records = list(robots.run(jobs(SUCCEEDS, SUCCEEDS)))

    assert reasons(records) == [(SUCCEEDS, "fake")] * 2


def test_a_crash_is_told_as_one_and_the_rest_goes_on_with_a_new_robot(
    settings: RobotSettings,
) -> None:
    events: list[Event] = []
    with pool(settings, 1, events) as robots:
        records = list(robots.run(jobs(CRASHES, SUCCEEDS)))

    assert reasons(records) == [(SUCCEEDS, "fake"), (CRASHES, "robot_crashed")]
    crashed = next(record for record in records if record.task == CRASHES)
    assert "exit status 9" in crashed.detail
    assert {event.robot.name for event in events} == {"robot-0", "robot-1"}


def test_f3_a_robot_whose_tool_stands_still_is_named_and_replaced(settings: RobotSettings) -> None:
    with pool(settings, 1, []) as robots:
        records = list(robots.run(jobs(STANDS_STILL, SUCCEEDS)))

    assert reasons(records) == [(SUCCEEDS, "fake"), (STANDS_STILL, "robot_hung")]
    hung = next(record for record in records if record.task == STANDS_STILL)
    assert "robot-0 stood at step 7 of tool 'move_to'" in hung.detail


def test_f3_a_silent_robot_is_given_up(settings: RobotSettings) -> None:
    with pool(settings, 1, [], silent_timeout_s=3.0) as robots:
        records = list(robots.run(jobs(FALLS_SILENT)))

    assert reasons(records) == [(FALLS_SILENT, "robot_hung")]
    assert "said nothing" in records[0].detail


def test_waiting_at_the_door_is_no_hang_and_leaving_ends_all_robots(
    settings: RobotSettings,
) -> None:
    with pool(settings, 2, []) as robots:
        running = robots.run(jobs(WAITS_AT_THE_DOOR, STANDS_STILL))
        record = next(running)
        processes = [robot.process for robot in robots.robots]

    assert record.task == STANDS_STILL
    assert [process.poll() is None for process in processes] == [False]
