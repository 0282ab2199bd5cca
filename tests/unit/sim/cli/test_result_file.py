from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from robot_sdk.results import ClockSample
from sim.cli.plan import Job
from sim.cli.record import EpisodeRecord, clock_quantiles, failed_record, zero_step_intervals
from sim.cli.result_file import ResultFile

pytestmark = pytest.mark.sim

GOOD = EpisodeRecord(
    suite="libero_object_swap",
    task=1,
    init=0,
    success=True,
    reason="finished",
    detail="",
    wall_time_s=5.0,
    outcome="success",
    steps=100,
    acted_steps=90,
    policy_steps=40,
    scripted_steps=60,
    chunks=8,
    turns=[[2.0, None, None], [1.0, 20, 3.0], [4.0, 0, 0.5]],
)


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def test_the_file_is_whole_after_every_episode(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    results = ResultFile(path, ["python", "-m", "sim", "run"], {"seed": 0})

    results.add(GOOD)
    first = read(path)
    results.add(failed_record(Job("libero_object_swap", 0, 0), "robot_crashed", "status -9"))
    second = read(path)

    assert [episode["task"] for episode in first["episodes"]] == [1]
    assert [episode["task"] for episode in second["episodes"]] == [0, 1]
    assert second["run"]["complete"] is False
    assert second["run"]["command"] == "python -m sim run"
    assert list(tmp_path.glob("**/*.part")) == []


def test_summary_counts_successes_reasons_and_shares_of_steps(tmp_path: Path) -> None:
    results = ResultFile(None, [], {})
    results.add(GOOD)
    results.add(
        dataclasses.replace(
            GOOD, init=1, success=False, outcome="failure", reason="grasp_not_by_policy"
        )
    )

    summary = results.summary()

    assert (summary["successes"], summary["episodes"]) == (1, 2)
    assert summary["without_verdict"] == 0
    assert summary["successes_by_task"] == {"libero_object_swap/1": "1/2"}
    assert summary["failure_reasons"] == {"grasp_not_by_policy": 1}
    assert (summary["steps"], summary["acted_steps"]) == (200, 180)
    assert summary["policy_step_share"] == pytest.approx(0.4)
    assert summary["scripted_step_share"] == pytest.approx(0.6)
    assert summary["clocks_s"]["brain_latency"]["count"] == 6
    assert summary["clocks_s"]["env_step_gap"]["max"] == pytest.approx(1.0)


def test_clocks_leave_out_the_interval_that_the_first_turn_does_not_have() -> None:
    samples = [ClockSample(0, 2.0), ClockSample(1, 4.0, 0, 0.5)]
    clocks = clock_quantiles(samples)

    assert clocks["brain_latency"]["p50"] == 3.0
    assert clocks["env_step_gap"] == {"count": 1, "p50": 0.0, "p90": 0.0, "p99": 0.0, "max": 0.0}
    assert zero_step_intervals(samples) == 1


def test_no_samples_are_unknown_and_not_zero() -> None:
    assert clock_quantiles([])["wall_clock_gap"]["p50"] is None
