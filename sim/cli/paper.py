"""`python -m sim paper`: tables and figures of the study, made anew."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import RobotSdkError
from server.capacity.engine import study_version
from sim.cli.output import why_unusable
from sim.cli.stopping import sigterm_interrupts
from sim.fleet.replay.runner import WorkerPool
from sim.paper.case import Case, Workplace
from sim.paper.plot import pyplot
from sim.paper.registry import all_cases
from sim.paper.report import write_report
from sim.paper.report.collect import collect

#: In place of a case: make the report of what the folder holds.
REPORT = "report"
STUDY_ENGINE = Path("out") / "study-engine"
MOST_PROCESSES = 256
MOST_SEEDS = 1000
EXIT_CODES = (
    "exit codes: 0 all cases were made; 1 some failed, the others were made; 2 wrong arguments, or "
    "no result to report of; 130 interrupted."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `paper`."""
    parser.add_argument(
        "case",
        nargs="*",
        help=f"which ones; default: all. `{REPORT}` alone makes the report of a folder's results",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out") / "paper",
        help="folder for results; default: %(default)s",
    )
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    parser.add_argument(
        "--quick", action="store_true", help="fewer seeds and sizes; says less, in minutes"
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="processes to compute with; default: the machine's cores",
    )
    parser.add_argument(
        "--seeds", type=int, help="runs of each setting; default: as each case sees fit"
    )
    parser.add_argument(
        "--study-engine",
        type=Path,
        metavar="FOLDER",
        help=f"vLLM as in the study; `make study-engine` makes {STUDY_ENGINE}, the default where "
        "it is there (tests/tools/fetch_study_engine.sh FOLDER: elsewhere)",
    )


def run(args: argparse.Namespace) -> int:
    """Make the cases and the report; returns one of the exit codes of `EXIT_CODES`."""
    cases = all_cases()
    problem = _problem(args, cases)
    if problem is not None:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    if args.list:
        _list(cases)
        return 0
    if args.case == [REPORT] and not any(collect(args.out)):
        print(
            f"error: {args.out} holds no result to report of; `python -m sim paper --out "
            f"{args.out}` makes them",
            file=sys.stderr,
        )
        return 2
    problem = why_unusable(args.out)
    if problem is not None:
        print(f"error: --out: {problem}", file=sys.stderr)
        return 2
    if args.case == [REPORT]:
        return _report(args.out, cases)
    pyplot()  # ends here, not after the first case, where matplotlib is missing
    with sigterm_interrupts(), WorkerPool() as pool:
        failed = _make(args, {name: cases[name] for name in args.case or cases}, pool)
        if failed is None:
            _report(args.out, cases)
            return 130
    status = _report(args.out, cases)
    if failed:
        print(f"failed: {', '.join(failed)}; the others were made", flush=True)
    return 1 if failed else status


def _list(cases: Mapping[str, Case]) -> None:
    print("minutes on two quiet cores, in brackets those with --quick where it is shorter:")
    for name, case in cases.items():
        shorter = "" if case.quick_minutes is None else f" ({case.quick_minutes:g} quick)"
        print(f"{name:20} {f'{case.minutes:g} min{shorter}':20}  {case.title}")
    whole, quick = (
        sum(_minutes(case, is_quick) for case in cases.values()) for is_quick in (False, True)
    )
    print(f"{'all':20} {whole:.1f} min ({quick:.1f} quick)")


def _problem(args: argparse.Namespace, cases: Mapping[str, Case]) -> str | None:
    """What is wrong with the arguments, in one line."""
    if REPORT in args.case and args.case != [REPORT]:
        return f"{REPORT} stands alone: it is made at the end of every run of cases anyway"
    unknown = [name for name in args.case if name not in cases and args.case != [REPORT]]
    if unknown:
        return f"no case {', '.join(unknown)}; there are: {', '.join(cases)}"
    for option, value, most in (
        ("--processes", args.processes, MOST_PROCESSES),
        ("--seeds", args.seeds, MOST_SEEDS),
    ):
        if value is not None and value < 1:
            return f"{option} is {value}; it must be at least 1"
        if value is not None and value > most:
            return f"{option} is {value}; it must be at most {most}"
    if args.study_engine is not None:
        try:
            study_version.check_folder(args.study_engine)
        except RobotSdkError as error:
            return f"--study-engine: {error}"
    return None


def _study_folder(args: argparse.Namespace, cases: Mapping[str, Case]) -> Path | None:
    if args.study_engine is not None:
        folder: Path = args.study_engine
        return folder.resolve()
    try:
        study_version.check_folder(STUDY_ENGINE)
    except RobotSdkError:
        needing = [name for name, case in cases.items() if case.uses_study_engine]
        if needing:
            print(
                f"the study's vLLM 0.17.1 is not here, so {', '.join(needing)} will run on the "
                "installed vLLM alone; get it with: make study-engine (or "
                f"tests/tools/fetch_study_engine.sh {STUDY_ENGINE})",
                flush=True,
            )
        return None
    return STUDY_ENGINE.resolve()


def _make(
    args: argparse.Namespace, cases: Mapping[str, Case], pool: WorkerPool
) -> list[str] | None:
    """Run the cases; names of those that failed, or None: interrupted."""
    study_folder = _study_folder(args, cases)
    failed: list[str] = []
    minutes = [_minutes(case, args.quick) for case in cases.values()]
    for place, (name, case) in enumerate(cases.items()):
        follow = ""
        if place + 1 < len(cases):
            follow = f"; {sum(minutes[place:]):.1f} min with all that follow"
        print(
            f"[{place + 1}/{len(cases)}] {name}: {case.title} (about {minutes[place]:g} min"
            f"{follow})",
            flush=True,
        )
        workplace = Workplace(
            args.out,
            args.processes,
            lambda text: print(f"  {text}", flush=True),
            quick=args.quick,
            study_folder=study_folder,
            num_seeds=args.seeds,
            pool=pool,
        )
        started_s = SYSTEM_CLOCK.now_s()
        try:
            case.run(workplace)
        except KeyboardInterrupt:
            workplace.write_partial(name, "interrupted")
            print(f"{name}: interrupted; what was finished is kept", flush=True)
            return None
        except RobotSdkError as error:
            failed.append(name)
            workplace.write_partial(name, f"failed: {error}")
            print(f"error: {name}: {error}", flush=True)
        except Exception as error:  # noqa: BLE001 - one case must not cost the others
            failed.append(name)
            traceback.print_exc(file=sys.stdout)
            workplace.write_partial(name, f"failed: {type(error).__name__}: {error}")
            print(f"error: {name} failed: {type(error).__name__}: {error}", flush=True)
        else:
            took_min = (SYSTEM_CLOCK.now_s() - started_s) / 60
            print(f"{name}: done in {took_min:.1f} min", flush=True)
    return failed


def _minutes(case: Case, quick: bool) -> float:
    return case.minutes if not quick or case.quick_minutes is None else case.quick_minutes


def _report(folder: Path, cases: Mapping[str, Case]) -> int:
    try:
        lines = write_report(folder, cases)
    except OSError as error:
        print(f"error: the report: {error.strerror}: {error.filename}", flush=True)
        return 1
    for line in lines:
        print(line, flush=True)
    return 0
