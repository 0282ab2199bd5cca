"""A robot process that is stopped as a whole and goes on later makes up for nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONTROL_HZ = 20.0
STOPPED_S = 1.0

_ROBOT_PROGRAM = """
import json, sys
import numpy as np
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.control import ControlLoop
from robot_sdk.policy_source import PolicySource
from robot_sdk.request_timing import RequestTiming
from robot_sdk.testing.recording_robot import RecordingRobot
from robot_sdk.testing.virtual_policy import VirtualPolicyStream, plain_spec

spec = plain_spec(horizon=50, executed_steps=50)
robot = RecordingRobot(SYSTEM_CLOCK)
robot.on_act = lambda action: print("acted", flush=True)
stream = VirtualPolicyStream(spec, SYSTEM_CLOCK, latency_s=0.05)
source = PolicySource(stream, ChunkBuffer(), RequestTiming.from_spec(spec), max_steps=40)
with ControlLoop(robot) as loop:
    report = loop.run(source)
print(json.dumps({
    "steps": [int(action[0]) for action in robot.actions],
    "overrun_ticks": report.overrun_ticks,
    "commanded": report.steps,
}))
"""


@pytest.mark.faultinjection
def test_b6_rows_that_expired_while_the_robot_process_was_stopped_are_dropped():
    checkout = Path(__file__).resolve().parents[3]
    robot = subprocess.Popen(
        [sys.executable, "-c", _ROBOT_PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(checkout)},
    )
    try:
        assert robot.stdout is not None
        assert robot.stdout.readline() == "acted\n"
        robot.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        robot.send_signal(signal.SIGCONT)
        output, _ = robot.communicate(timeout=30)
    finally:
        robot.kill()
        robot.wait()
    result = json.loads(output.splitlines()[-1])
    steps = result["steps"]
    missed = STOPPED_S * CONTROL_HZ
    assert max(b - a for a, b in zip(steps, steps[1:], strict=False)) >= missed - 1
    assert steps == sorted(set(steps))
    # The budget is 40 steps of the grid; those that passed while it was stopped are not added.
    assert result["overrun_ticks"] >= missed - 1
    assert result["commanded"] + result["overrun_ticks"] >= 40
    assert len(steps) <= 40 - (missed - 1)
