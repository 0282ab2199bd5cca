"""`python -m server profile-policy`: how long a configured policy takes, by batch size."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import SYSTEM_CLOCK, Clock, wall_unix_ns
from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from robot_sdk.spec import PolicySpec
from server import config as configuration
from server.config import Config, ConfigError
from server.config_options import add_config_options
from server.core.batching.latency_table import LatencyRow, LatencyTable
from server.policy.interface import Policy, PolicyInput, PolicyOutput
from server.policy.out_of_memory import is_out_of_memory
from server.policy.registry import factory_path
from server.result_path import check_result_path
from server.sections.policy import PolicySection
from server.worker.factory import FactoryError, build

DESCRIPTION = """\
Loads one configured policy into this process and measures it with made-up observations, by batch
size. Writes the table that `policies.NAME.latency_table`, `python -m server plan` and the replay
read. Only the policy is measured: not the network, not decoding, not queueing. Exit codes: 0 done,
1 the policy failed, 2 bad input or a missing extra."""

DEFAULT_BATCHES = (1, 2, 4, 8, 16, 32, 64)
DEFAULT_NUM_WARMUPS = 10
DEFAULT_NUM_RUNS = 50

#: Side of a picture of a policy that takes any size, pixels: what the π0.5 checkpoints take.
_ANY_PICTURE_PX = 224
#: Length of a tensor's axis that may have any length.
_ANY_LENGTH = 8
#: Every number of every tensor: within the limits of most, and a unit quaternion where that is
#: what a policy wants.
_TENSOR_VALUE = 0.5
_INSTRUCTION = "pick up the milk and place it in the basket"
_SEED = 0


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        InvalidArgumentError: A value is out of range, or the configuration or policy is wrong.
        RobotSdkError: The policy refused an observation or failed.
    """
    args = _parser().parse_args(arguments)
    if args.json is not None:
        check_result_path(args.json, "--json")
    try:
        name, section = _choose(configuration.load(args.config, args.set), args.policy)
    except ConfigError as error:
        raise InvalidArgumentError(str(error)) from error
    if section.devices:
        # Before anything of CUDA is loaded; the table is that of one worker.
        os.environ["CUDA_VISIBLE_DEVICES"] = section.devices[0]
    _show(f"loading {name} ({section.kind})")
    try:
        policy = build(factory_path(section.kind, section.factory), section.options)
    except FactoryError as error:
        raise InvalidArgumentError(str(error), field=f"policies.{name}") from error
    table = profile(
        policy,
        name,
        batches=args.batches,
        num_warmups=args.warmups,
        num_runs=args.runs,
        added_latency_s=section.added_latency_s,
        show=_show,
    )
    sys.stdout.write(render(table) + "\n")
    if args.json is not None:
        args.json.write_text(json.dumps(table.to_json(), indent=2) + "\n", encoding="utf-8")
    return 0


def profile(
    policy: Policy,
    name: str,
    *,
    batches: Sequence[int] = DEFAULT_BATCHES,
    num_warmups: int = DEFAULT_NUM_WARMUPS,
    num_runs: int = DEFAULT_NUM_RUNS,
    added_latency_s: float = 0.0,
    clock: Clock = SYSTEM_CLOCK,
    show: Callable[[str], None] = lambda _: None,
) -> LatencyTable:
    """Measure a policy.

    Args:
        policy: Loaded. It may say more about itself: `device` and `dtype` as text, and
            `num_flow_steps`, which gives the time of one denoising step.
        name: Name for the table.
        batches: Batch sizes, increasing.
        num_warmups: Runs per batch size that are not counted.
        num_runs: Runs per batch size that are.
        added_latency_s: The configuration's modelled delay; it is part of what a robot waits for,
            so it is added to every latency, and `measured_on` says so.
        clock: Measures.
        show: Told what goes on.

    Raises:
        RobotSdkError: The policy failed at the smallest batch size. At a larger one, or where
            memory runs out, the table ends before it.
    """
    rows: list[LatencyRow] = []
    for batch in batches:
        try:
            row = _measure(policy, batch, num_warmups, num_runs, added_latency_s, clock)
        except Exception as error:
            if not rows or not (isinstance(error, RobotSdkError) or is_out_of_memory(error)):
                raise
            show(f"batch {batch}: {error}; the table ends at batch {rows[-1].batch}")
            break
        rows.append(row)
        show(f"batch {batch}: {row.p50_s * 1e3:.1f} ms (p99 {(row.p99_s or 0.0) * 1e3:.1f} ms)")
    day = datetime.datetime.fromtimestamp(wall_unix_ns() / 1e9, datetime.timezone.utc).date()
    added = f", {added_latency_s} s of it added by the configuration" if added_latency_s else ""
    return LatencyTable(
        policy=name,
        device=str(getattr(policy, "device", "cpu")),
        dtype=str(getattr(policy, "dtype", "unknown")),
        measured_on=f"{platform.machine()}, {os.cpu_count()} cores, {day}{added}",
        num_warmups=num_warmups,
        num_runs=num_runs,
        rows=tuple(rows),
    )


def make_observation(spec: PolicySpec, index: int) -> PolicyInput:
    """A made-up observation with everything that a policy requires."""
    rng = np.random.default_rng((_SEED, index))
    images: dict[str, NDArray[np.generic]] = {}
    tensors: dict[str, NDArray[np.generic]] = {}
    for key in spec.observation_keys:
        if not key.required:
            continue
        if key.is_image:
            size = tuple(length or _ANY_PICTURE_PX for length in key.shape)
            images[key.name] = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        else:
            shape = tuple(length or _ANY_LENGTH for length in key.shape)
            tensors[key.name] = np.full(shape, _TENSOR_VALUE).astype(key.dtype)
    return PolicyInput(
        instruction=_INSTRUCTION,
        tensors=tensors,
        images=images,
        sequence=index,
        control_step=index,
        noise_seed=_SEED,
    )


def render(table: LatencyTable) -> str:
    """The table for a person, without a line end at the end."""
    lines = [
        f"{table.policy} on {table.device}, {table.dtype}; {table.measured_on}; milliseconds, "
        f"{table.num_runs} runs after {table.num_warmups} warm-ups",
        "batch     p50     p90     p99  vision  prefix denoise    step  memory MiB",
    ]
    for row in table.rows:
        times = (
            *(row.p50_s, row.p90_s, row.p99_s),
            *(row.vision_s, row.prefill_s, row.denoise_s, row.denoise_step_s),
        )
        cells = ("      -" if t is None else f"{t * 1e3:7.1f}" for t in times)
        memory = "-" if row.memory_bytes is None else f"{row.memory_bytes / 2**20:.0f}"
        lines.append(f"{row.batch:5d} {' '.join(cells)} {memory:>11}")
    return "\n".join(lines)


def _measure(
    policy: Policy,
    batch: int,
    num_warmups: int,
    num_runs: int,
    added_latency_s: float,
    clock: Clock,
) -> LatencyRow:
    inputs = [make_observation(policy.spec, index) for index in range(batch)]
    _reset_peak_memory()
    for _ in range(num_warmups):
        _infer(policy, inputs)
    latencies_s: list[float] = []
    outputs: list[PolicyOutput] = []
    for _ in range(num_runs):
        started_s = clock.now_s()
        first = _infer(policy, inputs)
        latencies_s.append(clock.now_s() - started_s + added_latency_s)
        # The parts are those of the whole batch, so any row tells them.
        outputs.append(first)
    p50_s, p90_s, p99_s = (float(q) for q in np.quantile(latencies_s, (0.5, 0.9, 0.99)))
    denoise_s = _median([output.denoise_s for output in outputs])
    num_steps = getattr(policy, "num_flow_steps", None)
    return LatencyRow(
        batch=batch,
        p50_s=p50_s,
        p90_s=p90_s,
        p99_s=p99_s,
        vision_s=_median([output.vision_s for output in outputs]),
        prefill_s=_median([output.prefill_s for output in outputs]),
        denoise_s=denoise_s,
        denoise_step_s=denoise_s / num_steps if denoise_s and num_steps else None,
        memory_bytes=_peak_memory_bytes(),
    )


def _infer(policy: Policy, inputs: Sequence[PolicyInput]) -> PolicyOutput:
    """The first output. A policy may give an error in the place of any."""
    outputs: Sequence[Any] = policy.infer(inputs)
    for output in outputs:
        if isinstance(output, RobotSdkError):
            raise output
    first: PolicyOutput = outputs[0]
    return first


def _median(durations_s: Sequence[float | None]) -> float | None:
    """The median, None if it was not measured every time or is too short to tell."""
    known = [duration_s for duration_s in durations_s if duration_s is not None]
    if len(known) < len(durations_s):
        return None
    return statistics.median(known) or None


def _cuda() -> Any:
    """torch.cuda if the policy uses it, else None. Never loads torch."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _reset_peak_memory() -> None:
    if (cuda := _cuda()) is not None:
        cuda.reset_peak_memory_stats()


def _peak_memory_bytes() -> int:
    """On the GPU; without one, the most that this process has had so far."""
    if (cuda := _cuda()) is not None:
        return int(cuda.max_memory_allocated())
    # Linux counts in KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _choose(config: Config, name: str | None) -> tuple[str, PolicySection]:
    known = list(config.policies)
    if name is None and len(known) == 1:
        name = known[0]
    if name not in config.policies:
        raise InvalidArgumentError(
            "name one of the configured policies", field="--policy", value=name, allowed=known
        )
    return name, config.policies[name]


def _show(line: str) -> None:
    sys.stderr.write(f"profile-policy: {line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m server profile-policy",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_options(parser)
    parser.add_argument("--policy", metavar="NAME", help="which; needed if there are several")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument(
        "--batches",
        type=_batches,
        default=DEFAULT_BATCHES,
        metavar="N,N,...",
        help=f"batch sizes (default {','.join(map(str, DEFAULT_BATCHES))})",
    )
    parser.add_argument(
        "--warmups",
        type=_at_least(0),
        default=DEFAULT_NUM_WARMUPS,
        metavar="N",
        help=f"runs per batch size that are not counted (default {DEFAULT_NUM_WARMUPS})",
    )
    parser.add_argument(
        "--runs",
        type=_at_least(1),
        default=DEFAULT_NUM_RUNS,
        metavar="N",
        help=f"runs per batch size that are (default {DEFAULT_NUM_RUNS})",
    )
    return parser


def _batches(text: str) -> tuple[int, ...]:
    return tuple(sorted({_at_least(1)(part) for part in text.split(",")}))


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} up")
        return value

    return parse
