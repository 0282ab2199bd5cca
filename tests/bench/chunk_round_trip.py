"""Chunk round trip on loopback, beside openpi's client and wire, in the same run.

    python tests/bench/chunk_round_trip.py [--quick] [--json FILE]

An observation of 301 KB (two 224x224 RGB images, a state of 8 numbers, a prompt) goes to a policy
in a server process and a chunk of 10 actions of 7 numbers comes back. Scenarios:

    one        one robot, back to back, a policy that answers at once
    paced      16 robots at 20 Hz, each at its own place in the period
    together   the same, all at the same moment, as pacing for batches would have it
    paced5ms   as `paced`, with a policy that takes 5 ms for each call
    slow       16 robots, back to back, a policy that takes 50 ms for each call
    paced64    64 robots at 5 Hz (only when asked for)

Both sides run alternately in blocks (A B, then B A, and so on) in the same client structure:
`--processes` client processes, robots shared out among them, a thread and a connection for each
robot, one request under way for each. Sessions are opened before a block and closed after it, so
that the side which is not measured is idle. The places of paced robots on the 50 ms grid are drawn
for each pair of blocks and are the same for both sides.

A policy that takes time sleeps once for each call, whatever the batch: it stands for a model whose
time does not grow with the batch. `--slow-per-item-ms` adds a share for each observation in it.

Aims are printed and never asserted: a benchmark measures.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _support_process import BENCH_FOLDER, Child, cpu_s
from _support_product import start_product_server
from _support_stats import Quantiles, Spread, machine_line

SIDES = ("openpi", "product")
#: Minimal front ends without the product's work, for the choice between grpc.aio and threads.
FRONT_ENDS = ("aio", "threads")


@dataclass(frozen=True)
class Aim:
    """The product's quantile is to be at most `ratio` of openpi's."""

    quantile: str
    ratio: float


@dataclass(frozen=True)
class Scenario:
    """One load.

    Attributes:
        rate_hz: Requests of each robot a second. None: back to back.
        block_s: Counted part of a block.
        together: Paced robots ask at the same moment, not each at its own.
    """

    name: str
    num_robots: int
    rate_hz: float | None
    policy_delay_s: float
    block_s: float
    aim: Aim | None
    together: bool = False


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("one", 1, None, 0.0, 3.0, Aim("p50_ms", 1.1)),
        Scenario("paced", 16, 20.0, 0.0, 4.0, Aim("p99_ms", 0.25)),
        Scenario("slow", 16, None, 0.05, 5.0, Aim("p50_ms", 0.2)),
        Scenario("together", 16, 20.0, 0.0, 4.0, Aim("p99_ms", 0.25), together=True),
        Scenario("paced5ms", 16, 20.0, 0.005, 4.0, None),
        Scenario("paced64", 64, 5.0, 0.0, 4.0, None),
    )
}
DEFAULT_SCENARIOS = ("one", "paced", "together", "paced5ms", "slow")


@dataclass(frozen=True)
class BlockResult:
    """One block of one side."""

    quantiles: Quantiles
    num_skipped_ticks: int
    client_cpu_ms_per_chunk: float
    server_cpu_ms_per_chunk: float


class Side:
    """One system under load: its server and its client processes."""

    def __init__(
        self, name: str, scenario: Scenario, num_processes: int, per_item_s: float
    ) -> None:
        self.name = name
        self._children: list[Child] = []
        try:
            self._server, self._address = _start_server(name, scenario.policy_delay_s, per_item_s)
            self._children.append(self._server)
            self._shares = [
                list(range(first, scenario.num_robots, num_processes))
                for first in range(min(num_processes, scenario.num_robots))
            ]
            self._clients = []
            for _ in self._shares:
                client = Child([sys.executable, str(BENCH_FOLDER / "_support_client.py"), name])
                self._children.append(client)
                self._clients.append(client)
        except BaseException:
            self.close()
            raise

    def run(self, scenario: Scenario, warmup_s: float, phases_s: Sequence[float]) -> BlockResult:
        """One block: connect, measure, disconnect."""
        for client, robots in zip(self._clients, self._shares):
            client.post({"op": "connect", "address": self._address, "robots": robots})
        for client in self._clients:
            client.answer(60.0)
        server_cpu_before_s = cpu_s(self._server.pid)
        start_s = time.monotonic() + 0.3
        for client, robots in zip(self._clients, self._shares):
            client.post(
                {
                    "op": "run",
                    "start_s": start_s,
                    "duration_s": scenario.block_s + warmup_s,
                    "warmup_s": warmup_s,
                    "period_s": 1 / scenario.rate_hz if scenario.rate_hz else None,
                    "phases_s": [phases_s[robot] for robot in robots],
                }
            )
        answers = [client.answer(scenario.block_s + warmup_s + 60.0) for client in self._clients]
        server_cpu_s = cpu_s(self._server.pid) - server_cpu_before_s
        for client in self._clients:
            client.post({"op": "disconnect"})
        for client in self._clients:
            client.answer(60.0)
        return _block_result(self.name, answers, server_cpu_s, scenario.block_s, warmup_s)

    def close(self) -> None:
        for child in reversed(self._children):
            child.close()


def _start_server(side: str, delay_s: float, per_item_s: float) -> tuple[Child, str]:
    if side == "product":
        return start_product_server(delay_s, per_item_s)
    if side in FRONT_ENDS:
        server = Child([sys.executable, str(BENCH_FOLDER / "_support_front_end.py"), side])
        return server, server.read_line(60.0).rpartition(" ")[2]
    # openpi's server computes one observation at a time: each pays the call and its own share.
    server = Child(
        [sys.executable, str(BENCH_FOLDER / "_support_openpi.py"), str(delay_s + per_item_s)]
    )
    return server, server.read_line(60.0).rpartition(" ")[2]


def _block_result(
    side: str,
    answers: Sequence[dict[str, Any]],
    server_cpu_s: float,
    block_s: float,
    warmup_s: float,
) -> BlockResult:
    robots = [robot for answer in answers for robot in answer["robots"]]
    errors = [robot["error"] for robot in robots if robot["error"]]
    if errors:
        raise RuntimeError(f"{len(errors)} of {len(robots)} robots of {side} failed: {errors[0]}")
    latencies_ms = [value for robot in robots for value in robot["latencies_ms"]]
    # CPU time is of the whole block, latencies of its counted part.
    num_chunks = len(latencies_ms) * (block_s + warmup_s) / block_s
    return BlockResult(
        Quantiles.of(latencies_ms),
        sum(robot["num_skipped_ticks"] for robot in robots),
        sum(answer["cpu_s"] for answer in answers) * 1e3 / num_chunks,
        server_cpu_s * 1e3 / num_chunks,
    )


def measure(
    scenario: Scenario, sides: Sequence[str], arguments: argparse.Namespace
) -> dict[str, list[BlockResult]]:
    """All blocks of one scenario, the sides in turn."""
    rng = random.Random(arguments.seed)
    running: list[Side] = []
    results: dict[str, list[BlockResult]] = {name: [] for name in sides}
    try:
        for name in sides:
            running.append(
                Side(name, scenario, arguments.processes, arguments.slow_per_item_ms / 1e3)
            )
        for block in range(arguments.blocks):
            spread_s = 1 / scenario.rate_hz if scenario.rate_hz and not scenario.together else 0.0
            phases_s = [rng.uniform(0.0, spread_s) for _ in range(scenario.num_robots)]
            for side in running if block % 2 == 0 else reversed(running):
                result = side.run(scenario, arguments.warmup_s, phases_s)
                results[side.name].append(result)
                print(f"  block {block} {side.name:8} {_figures(result)}", flush=True)
    finally:
        for side in running:
            side.close()
    return results


def _figures(result: BlockResult) -> str:
    q = result.quantiles
    return (
        f"p50 {q.p50_ms:7.2f}  p90 {q.p90_ms:7.2f}  p99 {q.p99_ms:7.2f} ms  n {q.count:6}  "
        f"skipped ticks {result.num_skipped_ticks:4}  CPU/chunk client "
        f"{result.client_cpu_ms_per_chunk:.2f} server {result.server_cpu_ms_per_chunk:.2f} ms"
    )


def summarise(scenario: Scenario, results: dict[str, list[BlockResult]]) -> dict[str, Any]:
    """Print medians, extremes and ratios of one scenario and return them for the JSON file."""
    summary: dict[str, Any] = {"scenario": asdict(scenario), "sides": {}, "ratios": {}}
    for side, blocks in results.items():
        spreads = {
            key: Spread.of([getattr(block.quantiles, key) for block in blocks])
            for key in ("p50_ms", "p90_ms", "p99_ms")
        }
        summary["sides"][side] = {
            "blocks": [asdict(block) for block in blocks],
            **{key: asdict(spread) for key, spread in spreads.items()},
        }
        print(
            f"  {side:8} " + "  ".join(f"{key[:-3]} {spread} ms" for key, spread in spreads.items())
        )
    if set(results) != set(SIDES):
        return summary
    for key in ("p50_ms", "p90_ms", "p99_ms"):
        ratios = [
            getattr(ours.quantiles, key) / getattr(theirs.quantiles, key)
            for ours, theirs in zip(results["product"], results["openpi"])
        ]
        summary["ratios"][key] = asdict(Spread.of(ratios))
        print(f"  product/openpi {key[:-3]}: {Spread.of(ratios)}")
    if scenario.aim is not None:
        ratio = summary["ratios"][scenario.aim.quantile]["median"]
        met = ratio <= scenario.aim.ratio
        summary["aim"] = {**asdict(scenario.aim), "median_ratio": ratio, "met": met}
        print(
            f"  aim: {scenario.aim.quantile[:-3]} at most {scenario.aim.ratio} of openpi's: "
            f"{'met' if met else 'NOT met'} ({ratio:.3f})"
        )
    return summary


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--scenario", action="append", choices=sorted(SCENARIOS), help="repeat for several"
    )
    parser.add_argument(
        "--side", action="append", choices=SIDES + FRONT_ENDS, help="default: openpi, product"
    )
    parser.add_argument("--blocks", type=int, default=6, help="blocks for each side")
    parser.add_argument("--block-s", type=float, default=None, help="counted seconds of a block")
    parser.add_argument("--warmup-s", type=float, default=0.5)
    parser.add_argument("--processes", type=int, default=2, help="client processes for each side")
    parser.add_argument("--slow-per-item-ms", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="2 blocks of 2 s")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.blocks, arguments.block_s = 2, 2.0
    return arguments


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(argv)
    sides = tuple(arguments.side or SIDES)
    report: dict[str, Any] = {"machine": machine_line(), "processes": arguments.processes}
    print(f"{report['machine']}; {arguments.processes} client processes for each side")
    report["scenarios"] = []
    for name in arguments.scenario or DEFAULT_SCENARIOS:
        scenario = SCENARIOS[name]
        if arguments.block_s is not None:
            scenario = Scenario(**{**vars(scenario), "block_s": arguments.block_s})
        rate = "back to back" if scenario.rate_hz is None else f"at {scenario.rate_hz:g} Hz each"
        print(
            f"{name}: {scenario.num_robots} robot(s) {rate}, "
            f"policy {scenario.policy_delay_s * 1e3:g} ms"
        )
        report["scenarios"].append(summarise(scenario, measure(scenario, sides, arguments)))
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
