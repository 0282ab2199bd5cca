"""How a robot process of `python -m sim run` ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from sim.cli.plan import Job, RobotSettings

pytest.importorskip("mujoco", reason="the simulator is not installed")

pytestmark = pytest.mark.sim

ROOT = Path(__file__).parents[3]
#: Its episode neither ends nor lets any exception through.
STUBBORN = """
import sys, threading
from sim.cli import robot_process

def run(self, job):
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

robot_process.RobotProcess.run = run
sys.exit(robot_process.main(*sys.argv[1:]))
"""
#: Its episode cannot go on.
BROKEN = STUBBORN.replace("    while True:", "    raise MemoryError('no room')\n    while True:")


def started(tmp_path: Path, program: str) -> subprocess.Popen[str]:
    settings = RobotSettings(
        target="127.0.0.1:1",
        run_id="",
        seed=0,
        pace="lockstep",
        max_steps=1,
        suite_limits=False,
        with_images=False,
        with_video=False,
        run_folder=str(tmp_path),
    )
    robot = subprocess.Popen(
        [sys.executable, "-c", program, "robot-0", json.dumps(settings.to_json())],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert robot.stdin is not None
    robot.stdin.write(json.dumps(asdict(Job("libero_object", 0, 0))) + "\n")
    robot.stdin.flush()
    assert robot.stdout is not None
    assert any('"started"' in line for line in robot.stdout)
    return robot


@pytest.mark.faultinjection
def test_sigterm_ends_a_robot_whatever_its_episode_is_in_the_middle_of(tmp_path: Path) -> None:
    robot = started(tmp_path, STUBBORN)

    robot.send_signal(signal.SIGTERM)
    robot.send_signal(signal.SIGTERM)
    try:
        _, errors = robot.communicate(timeout=60)
    finally:
        robot.kill()

    assert robot.returncode == 143, errors


def test_a_robot_that_cannot_go_on_ends_and_says_why(tmp_path: Path) -> None:
    robot = started(tmp_path, BROKEN)
    try:
        _, errors = robot.communicate(timeout=60)
    finally:
        robot.kill()

    assert robot.returncode == 143
    assert "no room" in errors
