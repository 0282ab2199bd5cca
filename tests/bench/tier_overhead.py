"""What the action tier costs for each request, without the model, with 16 robots.

    python tests/bench/tier_overhead.py [--quick] [--json FILE]

The server runs as it is (deadline batcher, one worker process) with a policy that answers at once,
and 16 robots ask at 20 Hz, each at its own place in the period: four times as often as robots do
that execute five rows of a chunk. Observations have a state alone, or two 224x224 pictures (301
KB).

Of each request, on the server's clock, from the arrival of the observation to its chunk:

    wait      in the line and for a batch to form, until the batch is handed to the worker
    decode    bytes to checked arrays, in the worker
    encode    the rest: to the worker and back, other observations of the batch, checks of the
              chunk, its wire form
    total     all of it, less the time in the policy

and the processor time of front end and worker for each request. Both are given as a share of the
50 ms of a control period. Nothing is asserted: a benchmark measures.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from _support_load import Block, RobotResult, Sample, make_samples, run_block
from _support_process import cpu_s, process_tree
from _support_product import ProductSession, start_product_server
from _support_stats import Quantiles, machine_line
from numpy.typing import NDArray

NUM_ROBOTS = 16
PERIOD_S = 0.05


class TimedSession(ProductSession):
    """Keeps the server's breakdown of every chunk, milliseconds."""

    def __init__(self, address: str, robot: int, pictures: bool) -> None:
        super().__init__(address, robot, pictures=pictures)
        self.parts_ms: list[dict[str, float]] = []
        self.batch_sizes: list[int] = []

    def request(self, sample: Sample) -> NDArray[np.floating]:
        actions = super().request(sample)
        timing = self.last_timing
        assert timing is not None
        wait_s, decode_s = timing.batch_wait_s or 0.0, timing.preprocess_s or 0.0
        served_s = (timing.server_done_ns - timing.server_received_ns) * 1e-9  # type: ignore[operator]
        total_s = served_s - (timing.infer_s or 0.0)
        parts_s = {
            "wait": wait_s,
            "decode": decode_s,
            "encode": total_s - wait_s - decode_s,
            "total": total_s,
        }
        self.parts_ms.append({name: 1e3 * value for name, value in parts_s.items()})
        self.batch_sizes.append(timing.batch_size or 0)
        return actions


@dataclass(frozen=True)
class Overhead:
    """One kind of observation.

    Attributes:
        parts: Quantiles by part.
        cpu_ms: Processor time of front end and worker for each request.
        mean_batch: Observations in a batch, seen from a request.
        skipped_ticks: Ticks at which a robot still waited for its last chunk.
    """

    observation: str
    requests: int
    parts: dict[str, Quantiles]
    cpu_ms: dict[str, float]
    mean_batch: float
    skipped_ticks: int

    @property
    def share_of_period(self) -> float:
        """Median time that the tier adds to a request, as a share of 50 ms."""
        return self.parts["total"].p50_ms / (1e3 * PERIOD_S)

    @property
    def busy_share(self) -> float:
        """Part of one core that 16 robots take which ask at every tick."""
        return NUM_ROBOTS * sum(self.cpu_ms.values()) / (1e3 * PERIOD_S)


def measure(pictures: bool, duration_s: float) -> Overhead:
    """Start a server, run the robots, stop it."""
    server, address = start_product_server(pictures=pictures)
    try:
        # The server's children are its workers; the first of the tree is the server itself.
        workers = process_tree(server.pid)[1:]
        sessions = [TimedSession(address, robot, pictures) for robot in range(NUM_ROBOTS)]
        samples = [make_samples(robot) for robot in range(NUM_ROBOTS)]
        # Once each, so that the measured part starts with everything open and warm.
        _run(sessions, samples, 1.0)
        for session in sessions:
            session.parts_ms.clear()
            session.batch_sizes.clear()
        before = cpu_s(server.pid), sum(map(cpu_s, workers))
        results = _run(sessions, samples, duration_s)
        after = cpu_s(server.pid), sum(map(cpu_s, workers))
        for session in sessions:
            session.close()
    finally:
        server.close()
    rows = [row for session in sessions for row in session.parts_ms]
    all_s, worker_s = (end - start for start, end in zip(before, after))
    return Overhead(
        observation="two pictures" if pictures else "state only",
        requests=len(rows),
        parts={name: Quantiles.of([row[name] for row in rows]) for name in rows[0]},
        cpu_ms={
            "front_end": 1e3 * (all_s - worker_s) / len(rows),
            "worker": 1e3 * worker_s / len(rows),
        },
        mean_batch=float(np.mean([size for s in sessions for size in s.batch_sizes])),
        skipped_ticks=sum(result.num_skipped_ticks for result in results),
    )


def _run(
    sessions: list[TimedSession], samples: list[list[Sample]], duration_s: float
) -> list[RobotResult]:
    phases_s = [PERIOD_S * robot / NUM_ROBOTS for robot in range(NUM_ROBOTS)]
    block = Block(time.monotonic() + 0.1, duration_s, 0.0, PERIOD_S, phases_s)
    results = run_block(sessions, samples, block)
    errors = [result.error for result in results if result.error]
    if errors:
        raise RuntimeError(errors[0])
    return results


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="2 s for each case, to try it out")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    machine = machine_line()
    print(machine)
    found = [measure(pictures, 2.0 if args.quick else 15.0) for pictures in (False, True)]
    print(f"{'observation':14}{'part':10}{'p50 ms':>8}{'p99 ms':>8}{'of 50 ms':>10}")
    for item in found:
        for name, quantiles in item.parts.items():
            share = quantiles.p50_ms / (1e3 * PERIOD_S)
            print(
                f"{item.observation:14}{name:10}{quantiles.p50_ms:8.2f}{quantiles.p99_ms:8.2f}"
                f"{100 * share:9.1f}%"
            )
        for name, cpu_ms in item.cpu_ms.items():
            share = cpu_ms / (1e3 * PERIOD_S)
            print(f"{item.observation:14}{'cpu ' + name:16}{cpu_ms:10.2f}{100 * share:9.1f}%")
        print(
            f"{item.observation:14}{item.requests} requests, batches of {item.mean_batch:.1f}, "
            f"{item.skipped_ticks} ticks skipped; 16 robots at every tick take "
            f"{100 * item.busy_share:.0f}% of a core"
        )
    if args.json is not None:
        content = {
            "machine": machine,
            "robots": NUM_ROBOTS,
            "period_ms": 1e3 * PERIOD_S,
            "cases": [
                asdict(item)
                | {"share_of_period": item.share_of_period, "busy_share": item.busy_share}
                for item in found
            ],
        }
        args.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
