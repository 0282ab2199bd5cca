"""`python -m sim fit-cost`: a cost table for the replay from measured latencies of single turns."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

from robot_sdk.errors import InvalidArgumentError
from server.result_path import check_result_path
from sim.files import is_same_file, write_whole
from sim.fleet.brain import cost_table, fit, latencies

EXIT_CODES = (
    "exit codes: 0 the table was written; 2 wrong arguments, or a table that cannot be fitted."
)
#: See sim.fleet.brain.fit.
_USUAL_SHARE = 1.0
_USUAL_WHY = (
    "chosen, not in a latency table and not fitted: a turn costs in a step what it costs alone. "
    "With it and steps of 2,048 tokens the study's fleets N20, N48_K12 and N48_K20 come out at "
    "2.404, 2.025 and 2.391 requests/s (2.40 to 2.42, 2.027 and 2.377; vLLM 0.17.1, shuffled "
    "order, one seed)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `fit-cost`."""
    parser.add_argument(
        "table",
        type=Path,
        help="latencies as measured; the study's are "
        "sim/fleet/brain/tables/measured/h800-tp4-qwen3.6-27b.json",
    )
    parser.add_argument("--out", type=Path, required=True, help="file for the cost table")
    parser.add_argument(
        "--batched-decode-share",
        type=float,
        default=_USUAL_SHARE,
        metavar="SHARE",
        help="what a second turn adds to a decode step, of what a turn alone takes for its "
        "context; a latency table does not tell; default: %(default)s: as much as the "
        "first",
    )
    parser.add_argument(
        "--step-tokens",
        type=int,
        metavar="N",
        help="most tokens in a step of the engine, where the table's is a guess; a step's own time "
        "is then spread over so many tokens of a prompt; default: the table's",
    )
    parser.add_argument("--name", help="of the cost table; default: the table's")


def run(args: argparse.Namespace) -> int:
    """Fit and write; prints what is measured, what is fitted and how well it fits."""
    try:
        share = args.batched_decode_share
        if not (math.isfinite(share) and 0 <= share <= 1):
            raise InvalidArgumentError(
                "out of range", field="--batched-decode-share", value=share, allowed=("0 to 1",)
            )
        check_result_path(args.out, "--out")
        if is_same_file(args.out, args.table):
            raise InvalidArgumentError(
                "what was measured would be lost",
                field="--out",
                value=args.out,
                allowed=("another file than the table's",),
            )
        table = latencies.read(args.table)
        if args.step_tokens is not None:
            table = replace(table, step_tokens=args.step_tokens)
        if args.name is not None:
            table = replace(table, name=args.name)
        cost = fit.rounded(fit.fit(table, share))
    except InvalidArgumentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    why = _USUAL_WHY if share == _USUAL_SHARE else "chosen by whoever fitted this table"
    command = "python -m sim fit-cost " + args.table.name
    if share != _USUAL_SHARE:
        command += f" --batched-decode-share {share:g}"
    if args.step_tokens is not None:
        command += f" --step-tokens {args.step_tokens}"
    if args.name is not None:
        command += f" --name {args.name}"
    content = fit.cost_table(table, cost, {"batched_decode_share": why}, command)
    cost_table.model(content)
    try:
        write_whole(args.out, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        print(f"error: --out: cannot write {args.out}: {error.strerror}", file=sys.stderr)
        return 2
    _show(table, content)
    print(f"wrote {args.out}")
    return 0


def _show(table: latencies.BrainLatencies, content: dict[str, object]) -> None:
    print(f"measured: {table.model} on {table.device} ({table.source})")
    print("fitted here:")
    constants, chosen = content["constants"], content["chosen"]
    assert isinstance(constants, dict)
    assert isinstance(chosen, dict)
    for name, value in constants.items():
        note = f"  ({chosen[name]})" if name in chosen else ""
        print(f"  {name:24} {value:.5g}{note}")
    print(f"{'context':>9}" + "".join(f"{name:>26}" for name in latencies.COLUMNS))
    print(f"{'':9}" + f"{'measured  fitted  apart':>26}" * len(latencies.COLUMNS))
    rows = content["residuals"]
    assert isinstance(rows, list)
    by_place = {(row["context_tokens"], row["column"]): row for row in rows}
    for context in table.context_tokens:
        cells = [by_place[context, name] for name in latencies.COLUMNS]
        print(
            f"{context:9,}"
            + "".join(
                f"{cell['measured_s']:11.2f}{cell['fitted_s']:8.2f}{100 * cell['residual']:+6.1f}%"
                for cell in cells
            )
        )
