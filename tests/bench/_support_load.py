"""The load generator: the same robots for every system that is measured.

A robot is a thread with one session and at most one request under way, as a robot that waits for
its next chunk is. Latency is counted from the call that hands the observation over until the
actions are in the caller's hands, so both sides' encoding and decoding are inside it.

A paced robot asks at the ticks of an absolute grid. If an answer comes back after the next tick,
the ticks that passed are skipped and counted; they are not caught up.

The clock is read here with `time`, not through the SDK's clock: an instrument should not be made
of the thing it measures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

#: Different observations a robot sends in turn, so that nothing can answer from a cache of one.
NUM_OBSERVATIONS = 8
HORIZON_STEPS = 10
ACTION_DIM = 7
PROMPT = "pick up the alphabet soup and place it in the basket"


@dataclass(frozen=True)
class Sample:
    """What a robot saw: the 301 KB observation of the comparison.

    Attributes:
        base_rgb, wrist_rgb: (224, 224, 3) uint8.
        state: (8,) float32. `state[0]` is the mark that the answer must carry back.
    """

    base_rgb: NDArray[np.uint8]
    wrist_rgb: NDArray[np.uint8]
    state: NDArray[np.float32]


def make_samples(robot: int) -> list[Sample]:
    """The observations of one robot, the same for every system."""
    rng = np.random.default_rng(robot)
    samples = []
    for index in range(NUM_OBSERVATIONS):
        pixels = rng.integers(0, 256, size=(2, 224, 224, 3), dtype=np.uint8)
        state = rng.standard_normal(8).astype(np.float32)
        state[0] = robot * NUM_OBSERVATIONS + index
        samples.append(Sample(pixels[0].copy(), pixels[1].copy(), state))
    return samples


class Session(Protocol):
    """One robot's connection to the system that is measured."""

    def request(self, sample: Sample) -> NDArray[np.floating]:
        """Send one observation and block until its actions (HORIZON_STEPS, ACTION_DIM) are here."""

    def close(self) -> None:
        """Leave the server."""


@dataclass(frozen=True)
class Block:
    """One measured stretch. Times are of `time.monotonic`, the same in all processes of a host.

    Attributes:
        period_s: Time between two requests of a robot. None: back to back.
        phases_s: For each robot its place in the period, [0, period_s).
        warmup_s: Requests that start in this first part are made but not counted.
    """

    start_s: float
    duration_s: float
    warmup_s: float
    period_s: float | None
    phases_s: Sequence[float]


@dataclass
class RobotResult:
    """What one robot measured in one block."""

    latencies_ms: list[float] = field(default_factory=list)
    num_skipped_ticks: int = 0
    error: str = ""


def run_block(
    sessions: Sequence[Session], samples: Sequence[list[Sample]], block: Block
) -> list[RobotResult]:
    """Run all robots of this process through one block, one thread each."""
    results = [RobotResult() for _ in sessions]
    threads = [
        threading.Thread(
            target=_run_robot,
            args=(session, robot_samples, block, phase_s, result),
        )
        for session, robot_samples, phase_s, result in zip(
            sessions, samples, block.phases_s, results
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _run_robot(
    session: Session, samples: list[Sample], block: Block, phase_s: float, result: RobotResult
) -> None:
    try:
        _measure(session.request, samples, block, phase_s, result)
    except Exception as error:  # the report carries it to the process that prints
        result.error = f"{type(error).__name__}: {error}"


def _measure(
    request: Callable[[Sample], NDArray[np.floating]],
    samples: list[Sample],
    block: Block,
    phase_s: float,
    result: RobotResult,
) -> None:
    end_s = block.start_s + block.duration_s
    counted_from_s = block.start_s + block.warmup_s
    next_s = block.start_s + phase_s
    count = 0
    while next_s < end_s:
        _sleep_until(next_s)
        sample = samples[count % len(samples)]
        count += 1
        sent_s = time.monotonic()
        actions = request(sample)
        received_s = time.monotonic()
        _check(actions, sample)
        if sent_s >= counted_from_s:
            result.latencies_ms.append((received_s - sent_s) * 1e3)
        if block.period_s is None:
            next_s = received_s
            continue
        next_s += block.period_s
        while next_s < received_s:
            next_s += block.period_s
            result.num_skipped_ticks += 1


def _sleep_until(deadline_s: float) -> None:
    remaining_s = deadline_s - time.monotonic()
    if remaining_s > 0:
        time.sleep(remaining_s)


def _check(actions: NDArray[np.floating], sample: Sample) -> None:
    """A fast wrong answer is not a result: shape and mark must be those of this observation."""
    if actions.shape != (HORIZON_STEPS, ACTION_DIM):
        raise ValueError(
            f"actions have shape {actions.shape}, expected {(HORIZON_STEPS, ACTION_DIM)}"
        )
    if float(actions[0, 0]) != float(sample.state[0]):
        raise ValueError(f"answer carries mark {actions[0, 0]}, expected {sample.state[0]}")
