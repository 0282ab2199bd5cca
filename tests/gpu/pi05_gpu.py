"""Latency of π0.5 by batch size, eager and with CUDA graphs, checked against float32.

One script, under six minutes, anywhere torch runs; tests/gpu/README.md says what it prints. From
the repository:

    PYTHONPATH=. python tests/gpu/pi05_gpu.py --json pi05.json
    PYTHONPATH=. python tests/gpu/pi05_gpu.py --size tiny --batches 1,2,4     # seconds, on a CPU
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robot_sdk.clock import SYSTEM_CLOCK
from server.core.batching.latency_table import LatencyRow, LatencyTable
from server.policy.pi05.bucket import Shape
from server.policy.pi05.config import SIZES
from server.policy.pi05.model import Pi05Model
from server.policy.pi05.random_weights import random_model
from server.policy.pi05.runner import Row, Runner, RunResult
from server.policy.profile import render

HORIZON = 10
NUM_TOKENS = 200
PICTURE_PX = 224
SEED = 0
#: Time from one chunk to the next at 20 Hz with five executed rows, seconds.
CYCLE_S = 0.25
#: Largest root mean square difference to float32, as a share of the actions' own. Half precision
#: keeps 8 bits, about 0.4% a rounding, and a chunk is some hundred layers away from its noise.
MOST_ROUNDING = 0.1
#: A graph replays the kernels that ran eagerly, so only their order of adding may differ.
MOST_GRAPH_DIFFERENCE = 1e-2
#: At least this many runs of each size, whatever the time.
_LEAST_RUNS = 5


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    num_views: int
    num_steps: int
    batches: tuple[int, ...]
    prefix_batch: int
    num_warmups: int
    num_runs: int
    seconds_per_size: float


def make_rows(model: Pi05Model, plan: Plan, count: int) -> list[Row]:
    """Different inputs for every row, the same for every call."""
    rng = np.random.default_rng(SEED)
    return [
        Row(
            tuple(
                rng.integers(0, 256, (PICTURE_PX, PICTURE_PX, 3), dtype=np.uint8)
                for _ in range(plan.num_views)
            ),
            [
                int(token)
                for token in rng.integers(3, model.config.vocabulary_size, 48 + index % 16)
            ],
            rng.standard_normal((HORIZON, model.config.action_width), dtype=np.float32),
        )
        for index in range(count)
    ]


def make_runner(model: Pi05Model, plan: Plan, use_graphs: bool, compile_model: bool) -> Runner:
    """A runner with a bucket per batch size."""
    return Runner(
        model,
        Shape(plan.num_views, NUM_TOKENS, HORIZON),
        rotate_180=[False] * plan.num_views,
        antialias=True,
        num_steps=plan.num_steps,
        buckets=plan.batches,
        prefix_batch=plan.prefix_batch,
        use_graphs=use_graphs,
        compile_model=compile_model,
    )


def measure(runner: Runner, rows: Sequence[Row], plan: Plan) -> LatencyRow:
    """One batch size."""
    is_cuda = torch.cuda.is_available()
    if is_cuda:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(plan.num_warmups):
        runner.run(rows)
    started_s = SYSTEM_CLOCK.now_s()
    latencies_s: list[float] = []
    results: list[RunResult] = []
    while len(latencies_s) < plan.num_runs:
        before_s = SYSTEM_CLOCK.now_s()
        if before_s - started_s > plan.seconds_per_size and len(latencies_s) >= _LEAST_RUNS:
            break
        results.append(runner.run(rows))
        latencies_s.append(SYSTEM_CLOCK.now_s() - before_s)
    p50_s, p90_s, p99_s = (float(q) for q in np.quantile(latencies_s, (0.5, 0.9, 0.99)))
    denoise_s = statistics.median(result.denoise_s for result in results)
    return LatencyRow(
        batch=len(rows),
        p50_s=p50_s,
        p90_s=p90_s,
        p99_s=p99_s,
        vision_s=statistics.median(result.vision_s for result in results),
        prefill_s=statistics.median(result.prefill_s for result in results),
        denoise_s=denoise_s,
        denoise_step_s=denoise_s / plan.num_steps,
        memory_bytes=torch.cuda.max_memory_allocated() if is_cuda else None,
    )


def measure_all(name: str, runner: Runner, rows: Sequence[Row], plan: Plan) -> LatencyTable:
    """All batch sizes of one way to run."""
    measured = []
    for batch in plan.batches:
        try:
            measured.append(measure(runner, rows[:batch], plan))
        except torch.cuda.OutOfMemoryError:
            say(f"{name}: no memory for a batch of {batch}; the table ends there")
            torch.cuda.empty_cache()
            break
        say(f"{name}: batch {batch}: {measured[-1].p50_s * 1e3:.1f} ms")
    return LatencyTable(
        policy=name,
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        dtype=str(runner_dtype()).removeprefix("torch."),
        measured_on=f"{platform.machine()}, torch {torch.__version__}",
        num_warmups=plan.num_warmups,
        num_runs=plan.num_runs,
        rows=tuple(measured),
    )


def runner_dtype() -> torch.dtype:
    """What the towers run in here."""
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def rounding(found: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square of the difference, as a share of that of the actions."""
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))


def robots_in_time(table: LatencyTable) -> int:
    """Largest batch that is done within one cycle at 20 Hz, between the measured sizes."""
    fitting = [b for b in range(1, table.largest_batch + 1) if table.latency_s(b) <= CYCLE_S]
    return max(fitting, default=0)


def say(line: str) -> None:
    """Progress, at once."""
    print(line, file=sys.stderr, flush=True)


def run(size: str, plan: Plan, compile_model: bool) -> tuple[dict[str, Any], bool]:
    """Everything; the result, and whether the checks hold."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    started_s = SYSTEM_CLOCK.now_s()
    say(f"drawing random weights of the {size} size")
    model = random_model(SIZES[size], device, torch.float32, SEED)
    rows = make_rows(model, plan, max(plan.batches))
    check_rows = rows[: min(4, len(rows))]
    say(f"float32 reference ({SYSTEM_CLOCK.now_s() - started_s:.0f} s so far)")
    # Full precision also inside multiplications and convolutions.
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    expected = make_runner(model, plan, False, False).run(check_rows).actions
    # The half precision that a GPU runs in is checked on a CPU, too; it is only not timed there.
    model.set_precision(torch.bfloat16)
    halved = make_runner(model, plan, False, False).run(check_rows).actions
    if runner_dtype() == torch.float32:
        del model
        gc.collect()
        model = random_model(SIZES[size], device, torch.float32, SEED)
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()

    ways = {"eager": (False, False)}
    if device.type == "cuda":
        ways["graphs"] = (True, False)
    if compile_model:
        ways["compiled"] = (device.type == "cuda", True)
    tables: dict[str, LatencyTable] = {}
    chunks: dict[str, np.ndarray] = {}
    for name, (use_graphs, is_compiled) in ways.items():
        runner = make_runner(model, plan, use_graphs, is_compiled)
        chunks[name] = runner.run(check_rows).actions
        tables[name] = measure_all(name, runner, rows, plan)
        del runner
        gc.collect()
    check = {
        "bfloat16_to_float32": rounding(halved, expected),
        "most": MOST_ROUNDING,
        "largest_difference_to_eager": {
            name: float(np.abs(chunk - chunks["eager"]).max()) for name, chunk in chunks.items()
        },
        "finite": bool(all(np.isfinite(chunk).all() for chunk in chunks.values())),
    }
    holds = (
        check["finite"]
        and check["bfloat16_to_float32"] <= MOST_ROUNDING
        and check["largest_difference_to_eager"].get("graphs", 0.0) <= MOST_GRAPH_DIFFERENCE
    )
    result = {
        "size": size,
        "num_views": plan.num_views,
        "num_steps": plan.num_steps,
        "prefix_batch": plan.prefix_batch,
        "num_tokens": NUM_TOKENS,
        "horizon": HORIZON,
        "check": check,
        "robots_at_20_hz": {name: robots_in_time(table) for name, table in tables.items()},
        "tables": {name: table.to_json() for name, table in tables.items()},
        "took_s": SYSTEM_CLOCK.now_s() - started_s,
    }
    for table in tables.values():
        print(render(table) + "\n")
    return result, bool(holds)


def main() -> int:
    """0 if the checks hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="public")
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batches", default="1,2,4,8,16,32,64")
    parser.add_argument("--prefix-batch", type=int, default=4)
    parser.add_argument("--warmups", type=int, default=5)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seconds-per-size", type=float, default=8.0)
    parser.add_argument("--compile", action="store_true", help="measure torch.compile, too")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    plan = Plan(
        num_views=args.views,
        num_steps=args.steps,
        batches=tuple(sorted({int(part) for part in args.batches.split(",")})),
        prefix_batch=args.prefix_batch,
        num_warmups=args.warmups,
        num_runs=args.runs,
        seconds_per_size=args.seconds_per_size,
    )
    result, holds = run(args.size, plan, args.compile)
    print(json.dumps({key: value for key, value in result.items() if key != "tables"}, indent=2))
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
