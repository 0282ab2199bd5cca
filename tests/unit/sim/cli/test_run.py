from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from server.config import load
from sim.cli.plan import Job
from sim.cli.record import EpisodeRecord, failed_record
from sim.cli.run import EXIT_FAILED, exit_code, server_settings, steps_text, time_text

pytestmark = pytest.mark.sim

SUCCESS = EpisodeRecord(
    suite="libero_object_swap",
    task=0,
    init=0,
    success=True,
    reason="finished",
    detail="",
    outcome="success",
    duration_s=52.6,
    wall_time_s=97.3,
    steps=100,
    acted_steps=100,
    policy_steps=96,
    scripted_steps=4,
    policy_share=0.96,
)
FAILURE = dataclasses.replace(SUCCESS, success=False, outcome="failure", reason="gave_up")
CRASH = failed_record(Job("libero_object_swap", 1, 0), "robot_crashed", "exit status 9", 12.0)


def test_a_folder_of_any_name_reaches_the_server_whole() -> None:
    args = argparse.Namespace(brain_delay_s=0.0, policy_delay_ms=0.0, cap=None)
    folder = Path('out/say "hi" \\ 机器')

    config = load(None, server_settings(args, folder))

    assert config.telemetry.run_folder == str(folder)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([SUCCESS, SUCCESS], 0),
        ([SUCCESS, FAILURE], 0),
        ([FAILURE, CRASH], EXIT_FAILED),
        ([dataclasses.replace(FAILURE, outcome="aborted", reason="episode_lost")], EXIT_FAILED),
    ],
)
def test_a_failure_is_a_result_and_an_episode_without_a_verdict_an_error(
    records: list[EpisodeRecord], code: int
) -> None:
    assert exit_code(records) == code


def test_acted_steps_are_told_where_some_were_held() -> None:
    held = dataclasses.replace(SUCCESS, steps=619, acted_steps=90)

    assert steps_text(SUCCESS) == "100 steps (policy in charge: 96%)"
    assert steps_text(held) == "619 steps, 90 acted (policy in charge: 96%)"
    assert steps_text(CRASH) == "0 steps (policy in charge: -)"


def test_times_say_what_is_in_them() -> None:
    waited = dataclasses.replace(SUCCESS, queued_s=24.8, files={"video": "film.mp4"})

    assert time_text(SUCCESS) == "52.6 s (97.3 s with start-up)"
    assert time_text(waited) == "52.6 s (97.3 s with start-up, queue and film)"
    assert time_text(CRASH) == "12.0 s with start-up"
