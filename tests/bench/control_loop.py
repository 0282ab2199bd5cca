"""Timing of the control loop, and what it costs per tick.

    python tests/bench/control_loop.py [--seconds 60] [--json FILE]

The loop runs at 20 Hz on the real clock, once for each of: an idle machine; every core kept busy
by another process; the same with 5 to 45 ms of random work in every act(). It reports the number
of ticks, the lateness of their beginning and the shortest interval between two actions. Beside it,
at the same time, another process does nothing but sleep until the same kind of deadlines: its
lateness is what the machine's scheduler does to any process.

Then the processor time of a tick with a robot that does nothing and a source that pops rows from a
chunk buffer, beside a bare `sleep_until` loop that calls the same robot, in alternating blocks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from _support_process import CHECKOUT
from _support_stats import Spread, machine_line

from robot_sdk.action_source import Act, Command, Done, Hold, HoldReason, Tick
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.control import ControlLoop
from robot_sdk.observation import Observation
from robot_sdk.robot import Action

CONTROL_HZ = 20.0
ACTION_DIM = 7
CHUNK_ROWS = 50
WORK_RANGE_S = (0.005, 0.045)
#: Overhead is measured faster than 20 Hz, so that a block of a few seconds has enough ticks.
OVERHEAD_HZ = 200.0
OVERHEAD_BLOCKS = 5
#: Ends by itself if this process dies and cannot end it.
_BUSY_PROGRAM = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""
#: Sleeps until absolute deadlines and prints its lateness; the control loop has no part in it.
_REFERENCE_PROGRAM = """
import json, sys
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.lateness import LatenessHistogram
hz, seconds = float(sys.argv[1]), float(sys.argv[2])
lateness = LatenessHistogram()
start_s = SYSTEM_CLOCK.now_s()
num_too_late = 0
for index in range(round(hz * seconds)):
    deadline_s = start_s + index / hz
    SYSTEM_CLOCK.sleep_until(deadline_s)
    late_s = SYSTEM_CLOCK.now_s() - deadline_s
    lateness.add(late_s)
    num_too_late += late_s > 0.5 / hz
stats = lateness.stats()
print(json.dumps({
    "p50_ms": stats.p50_s * 1e3,
    "p99_ms": stats.p99_s * 1e3,
    "p999_ms": stats.p999_s * 1e3,
    "max_ms": stats.max_s * 1e3,
    "more_than_half_a_period_late": num_too_late,
}))
"""


class BenchRobot:
    """Does nothing, or sleeps as if it worked; remembers when it was told to act."""

    action_dim = ACTION_DIM

    def __init__(self, control_hz: float, work_range_s: tuple[float, float] | None = None) -> None:
        self.control_hz = control_hz
        self.acted_at_s: list[float] = []
        self._work_range_s = work_range_s
        self._random = random.Random(0)

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        return Observation()

    def act(self, action: Action) -> None:
        self.acted_at_s.append(SYSTEM_CLOCK.now_s())
        if self._work_range_s is not None:
            time.sleep(self._random.uniform(*self._work_range_s))

    def hold(self) -> None:
        return None


class BufferSource:
    """Pops a row a tick, and merges a chunk whenever the rows run out."""

    name = "bench"
    kind: Literal["policy"] = "policy"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end_s = 0.0
        self._buffer = ChunkBuffer()
        self._chunk = np.zeros((CHUNK_ROWS, ACTION_DIM), np.float32)

    def start(self, tick: Tick) -> None:
        self._end_s = tick.now_s + self._seconds

    def next(self, tick: Tick) -> Command:
        # Half a period early: the tick at start + seconds belongs to the next second.
        if tick.now_s >= self._end_s - 0.5 / tick.control_hz:
            return Done()
        if not self._buffer.remaining(tick.step):
            self._buffer.merge(tick.step, self._chunk, tick.step)
        row = self._buffer.pop(tick.step)
        return Hold(HoldReason.STARVED) if row is None else Act(row)

    def wait(self, timeout_s: float) -> None:
        return None

    def stop(self) -> None:
        return None


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep `count` cores busy with processes of our own."""
    arguments = [sys.executable, "-c", _BUSY_PROGRAM, str(os.getpid())]
    children = [subprocess.Popen(arguments) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait()


def measure_timing(
    name: str, seconds: float, work_range_s: tuple[float, float] | None
) -> dict[str, Any]:
    """One run of the loop at 20 Hz."""
    robot = BenchRobot(CONTROL_HZ, work_range_s)
    reference = subprocess.Popen(
        [sys.executable, "-c", _REFERENCE_PROGRAM, str(CONTROL_HZ), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    try:
        with ControlLoop(robot) as loop:
            report = loop.run(BufferSource(seconds))
            lateness = loop.state().lateness
        output, _ = reference.communicate(timeout=seconds + 30.0)
    finally:
        reference.kill()
        reference.wait()
    machine = json.loads(output)
    intervals_s = np.diff(robot.acted_at_s)
    expected = round(seconds * CONTROL_HZ)
    result = {
        "name": name,
        "seconds": seconds,
        "ticks": report.acted,
        "expected_ticks": expected,
        "overrun_ticks": report.overrun_ticks,
        "starved_ticks": report.starved_ticks,
        "lateness_p50_ms": _ms(lateness.p50_s),
        "lateness_p99_ms": _ms(lateness.p99_s),
        "lateness_p999_ms": _ms(lateness.p999_s),
        "lateness_max_ms": _ms(lateness.max_s),
        "interval_mean_ms": float(intervals_s.mean() * 1e3),
        "interval_min_ms": float(intervals_s.min() * 1e3),
        "interval_max_ms": float(intervals_s.max() * 1e3),
        "reference": machine,
    }
    print(
        f"  {name:22} {report.acted:5} ticks of {expected} (+-1), "
        f"{report.overrun_ticks} overruns; lateness p50 {result['lateness_p50_ms']:.3f} "
        f"p99 {result['lateness_p99_ms']:.3f} p99.9 {result['lateness_p999_ms']:.3f} "
        f"max {result['lateness_max_ms']:.3f} ms; interval mean "
        f"{result['interval_mean_ms']:.3f} min {result['interval_min_ms']:.2f} "
        f"max {result['interval_max_ms']:.2f} ms"
    )
    print(
        f"  {'  bare sleep beside it':22} lateness p50 {machine['p50_ms']:.3f} "
        f"p99 {machine['p99_ms']:.3f} p99.9 {machine['p999_ms']:.3f} "
        f"max {machine['max_ms']:.3f} ms; {machine['more_than_half_a_period_late']} wake-ups more "
        "than half a period late",
        flush=True,
    )
    return result


def loop_cpu_us(seconds: float) -> float:
    """Processor time of this process per tick of the control loop, microseconds."""
    robot = BenchRobot(OVERHEAD_HZ)
    with ControlLoop(robot) as loop:
        before_s = time.process_time()
        report = loop.run(BufferSource(seconds))
        return (time.process_time() - before_s) / report.acted * 1e6


def bare_cpu_us(seconds: float) -> float:
    """The same for a loop that only keeps absolute deadlines and calls the robot."""
    robot = BenchRobot(OVERHEAD_HZ)
    action = np.zeros(ACTION_DIM, np.float32)
    num_ticks = round(seconds * OVERHEAD_HZ)
    before_s = time.process_time()
    start_s = SYSTEM_CLOCK.now_s()
    for index in range(num_ticks):
        SYSTEM_CLOCK.sleep_until(start_s + index / OVERHEAD_HZ)
        robot.act(action)
    return (time.process_time() - before_s) / num_ticks * 1e6


def measure_overhead(block_s: float) -> dict[str, Any]:
    """Alternating blocks of both loops, so that a change of the machine meets both."""
    loop_us, bare_us = [], []
    for _ in range(OVERHEAD_BLOCKS):
        bare_us.append(bare_cpu_us(block_s))
        loop_us.append(loop_cpu_us(block_s))
    ratios = [loop / bare for loop, bare in zip(loop_us, bare_us, strict=True)]
    share = float(np.median(loop_us)) * 1e-6 * CONTROL_HZ
    print(
        f"  processor time per tick [us]: control loop {Spread.of(loop_us)}, bare sleep_until loop "
        f"{Spread.of(bare_us)}, ratio {Spread.of(ratios)}; at {CONTROL_HZ:g} Hz "
        f"{share:.2%} of one core"
    )
    return {
        "loop_cpu_us": loop_us,
        "bare_cpu_us": bare_us,
        "ratios": ratios,
        "share_of_core_at_20_hz": share,
        "block_s": block_s,
    }


def _ms(seconds: float | None) -> float:
    if seconds is None:
        raise RuntimeError("the loop ran no tick")
    return seconds * 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each timing run")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args(arguments)
    machine = machine_line()
    num_cores = os.cpu_count() or 1
    print(f"control loop at {CONTROL_HZ:g} Hz on {machine}")
    timing = [measure_timing("idle", options.seconds, None)]
    with busy_cores(num_cores):
        timing.append(measure_timing(f"{num_cores} cores busy", options.seconds, None))
        timing.append(measure_timing("busy, 5-45 ms of work", options.seconds, WORK_RANGE_S))
    overhead = measure_overhead(min(3.0, options.seconds))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        results = {"machine": machine, "timing": timing, "overhead": overhead}
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
