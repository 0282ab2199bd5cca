"""`python -m server cliff --engine study`: the study's cliff, regenerated on vLLM's scheduler."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from robot_sdk.clock import SYSTEM_CLOCK
from server.capacity.cliff import published, study_picture, study_report
from server.capacity.cliff.sweep import Sweep, run_sweeps
from server.capacity.cliff.variants import Variant, variants
from server.capacity.engine.study_version import check_folder


def run(args: argparse.Namespace) -> int:
    """Run the sweep, print the tables and write files; returns the exit code.

    Raises:
        InvalidArgumentError: The folder of the study's vLLM is none.
        RobotSdkError: A version of vLLM is missing, untested or refuses a cell.
        MissingExtraError: A picture is asked for and matplotlib is not installed.
        OSError: A file cannot be written.
    """
    started_s = SYSTEM_CLOCK.now_s()
    if args.study_engine is not None:
        check_folder(args.study_engine)
    first, last = args.sessions
    pools_blocks = tuple(args.pool_blocks or published.POOLS_BLOCKS)
    compared = variants(args.study_engine)
    sessions = range(first, last + 1)
    sweep_variants(compared, pools_blocks, sessions, args.rounds, args.study_engine, _show_progress)
    wall_s = SYSTEM_CLOCK.now_s() - started_s
    sys.stdout.write(study_report.render(compared, pools_blocks, wall_s) + "\n")
    if args.study_engine is None:
        sys.stdout.write(
            "\nThe study's own vLLM 0.17.1 was not run: fetch it with `make study-engine` (or "
            "tests/tools/fetch_study_engine.sh FOLDER) and give --study-engine out/study-engine\n"
        )
    if args.out is not None:
        _write(args.out, compared, pools_blocks, wall_s)
    return 0


def sweep_variants(
    compared: Sequence[Variant],
    pools_blocks: Sequence[int],
    sessions: Sequence[int],
    num_rounds: int,
    study_folder: Path | None,
    on_progress: Callable[[int, int], None],
) -> None:
    """Run every cell of the variants, each version of vLLM in a process; fills in their outcomes.

    Raises:
        RobotSdkError: A version is missing or untested, or a cell cannot be run.
    """
    sweeps, owners = [], []
    for is_study_version in (False, True):
        group = [variant for variant in compared if variant.is_study_version == is_study_version]
        if group:
            cells = [
                (variant, cell)
                for variant in group
                for cell in variant.cells(pools_blocks, sessions, num_rounds)
            ]
            folder = study_folder if is_study_version else None
            sweeps.append(Sweep([cell for _, cell in cells], folder))
            owners.append([variant for variant, _ in cells])
    run_sweeps(sweeps, on_progress)
    for sweep, variants_of_cells in zip(sweeps, owners, strict=True):
        _hand_out(sweep, variants_of_cells)


def _hand_out(sweep: Sweep, owners: list[Variant]) -> None:
    for variant, outcome in zip(owners, sweep.outcomes, strict=True):
        variant.version = sweep.version
        variant.outcomes.append(outcome)


def _write(
    out: Path, compared: list[Variant], pools_blocks: tuple[int, ...], wall_s: float
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    content = json.dumps(study_report.to_json(compared, wall_s), indent=2)
    (out / "cliff-study.json").write_text(content + "\n", encoding="utf-8")
    study_picture.draw(compared, pools_blocks, out / "cliff-study.png")
    sys.stdout.write(f"\nwritten: {out / 'cliff-study.json'}, {out / 'cliff-study.png'}\n")


def _show_progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} runs" + ("\n" if done == total else ""))
    elif done == total or done * 10 // total > (done - 1) * 10 // total:
        sys.stderr.write(f"{done} of {total} runs\n")
    sys.stderr.flush()
