"""A real run becomes a trace file, and a replay takes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim import __main__ as program
from sim.fleet.replay.settings import ReplaySettings, WorkloadChoice
from sim.fleet.workload.trace_file import read_traces

pytest.importorskip("mujoco", reason="the simulator is not installed")

pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace file of one episode of libero_object_swap."""
    folder = tmp_path_factory.mktemp("recorded")
    subprocess.run(
        [sys.executable, "-m", "sim", "run", "--tasks", "0", "--run-folder", str(folder / "run")],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=240,
        check=True,
    )
    path = folder / "traces.jsonl"
    assert program.main(["workload", "record", str(folder / "run"), "--out", str(path)]) == 0
    return path


def test_a_real_run_gives_all_that_a_replay_needs(recorded: Path) -> None:
    (trace,) = read_traces(recorded)
    assert trace.task_family == "libero_object_swap"
    assert trace.task == "pick up the alphabet soup and place it in the basket"
    assert (trace.success, trace.source, trace.control_hz) == (True, "recorded", 20.0)
    assert trace.tokens_estimated  # the rule-based planner has no tokenizer
    assert len(trace.turns) >= 5
    assert sum(turn.chunks for turn in trace.turns) >= 1
    assert sum(turn.env_steps for turn in trace.turns) >= 50
    assert all((turn.wall_gap_s or 0.0) > 0.0 for turn in trace.turns[:-1])
    assert all(turn.brain_latency_s is not None for turn in trace.turns)


@pytest.mark.vllm
def test_a_recorded_run_is_replayed(recorded: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    from sim.fleet.replay.replay import run

    settings = ReplaySettings.sustained(
        2, workload=WorkloadChoice(mix=str(recorded)), duration_s=60.0, warm_up_s=10.0
    )
    result = run(settings, seed=0)
    turns_an_episode = len(read_traces(recorded)[0].turns)
    assert result.episodes_completed >= 2
    assert result.turns >= result.episodes_completed * turns_an_episode
