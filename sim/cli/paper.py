"""`python -m sim paper`: tables and figures of the study, made anew."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from robot_sdk.clock import SYSTEM_CLOCK
from sim.cli.output import why_unusable
from sim.paper.case import Workplace
from sim.paper.registry import all_cases

EXIT_CODES = "exit codes: 0 all cases were made; 2 wrong arguments; 130 interrupted."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `paper`."""
    parser.add_argument("case", nargs="*", help="which ones; default: all")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out") / "paper",
        help="folder for results; default: %(default)s",
    )
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="processes to compute with; default: the machine's cores",
    )


def run(args: argparse.Namespace) -> int:
    """Make the cases; returns one of the exit codes of `EXIT_CODES`."""
    cases = all_cases()
    unknown = [name for name in args.case if name not in cases]
    if unknown:
        print(f"error: no case {', '.join(unknown)}; there are: {', '.join(cases)}")
        return 2
    if args.processes < 1:
        print(f"error: --processes is {args.processes}; it must be at least 1")
        return 2
    if args.list:
        for name, case in cases.items():
            print(f"{name:20} {case.minutes:4.0f} min  {case.title}")
        return 0
    problem = why_unusable(args.out)
    if problem is not None:
        print(f"error: --out: {problem}")
        return 2
    for name in args.case or cases:
        case = cases[name]
        print(f"{name}: {case.title} (about {case.minutes:.0f} min)", flush=True)
        started_s = SYSTEM_CLOCK.now_s()
        try:
            case.run(
                Workplace(args.out, args.processes, lambda text: print(f"  {text}", flush=True))
            )
        except KeyboardInterrupt:
            print(f"{name}: interrupted; what it was to leave is not complete", flush=True)
            return 130
        print(f"{name}: done in {(SYSTEM_CLOCK.now_s() - started_s) / 60:.1f} min", flush=True)
    return 0
