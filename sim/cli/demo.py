"""`python -m sim demo`: two robots, one place on the server, from start to table."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from pathlib import Path

from robot_sdk.__main__ import main as robot_sdk_main
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.interpreter import python_command
from sim.cli import run as run_command
from sim.cli.plan import Job
from sim.cli.result_file import ResultFile
from sim.libero.gl import select_gl

_SUITE = "libero_object_swap"
_TASKS = (0, 5)
_BRAIN_DELAY_S = 0.5
EXIT_CODES = """\
Exit codes: 0 both episodes succeeded, 1 one did not, 2 wrong arguments, 130 stopped by a signal."""
#: What a run leaves in its folder; removed before the next one.
_LEFTOVERS = ("*.trace.jsonl", "*.log", "*.json", "*.png", "*.mp4", "*.gif", "timelines/*.png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `demo`."""
    parser.add_argument("--run-folder", type=Path, default=Path("out") / "demo")
    parser.add_argument(
        "--no-images", action="store_true", help="no camera pictures and no film, even if GL works"
    )


def run(demo_args: argparse.Namespace) -> int:
    """Run it; returns one of the exit codes of `EXIT_CODES`."""
    folder: Path = demo_args.run_folder
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in _LEFTOVERS:
        for path in folder.glob(pattern):
            path.unlink()
    with_images = not demo_args.no_images and _pictures_work()
    args = _run_arguments(folder, with_images)
    print(
        f"Two robots, {_SUITE} tasks {_TASKS[0]} and {_TASKS[1]}, one place on the server (K=1), "
        f"lockstep.\nThe brain is a rule-based planner with a modelled delay of {_BRAIN_DELAY_S} s "
        "a turn; the policy is a small stand-in\nthat sees object poses. Expect two to three "
        "minutes.\n",
        flush=True,
    )
    jobs = [Job(_SUITE, task, 0) for task in _TASKS]
    results = ResultFile(
        folder / "summary.json",
        ["python", "-m", "sim", "demo"],
        run_command.describe_settings(args),
    )
    progress = run_command.Progress(len(jobs), show_tools=True)
    status = run_command.run_jobs(jobs, args, folder, results, progress)
    if any(folder.glob("*.trace.jsonl")):
        print(flush=True)
        trace = ["trace", str(folder)]
        if importlib.util.find_spec("matplotlib") is not None:
            trace += ["--png", str(folder / "timelines")]
        robot_sdk_main(trace)
    _print_files(folder)
    succeeded = status == 0 and all(record.success for record in results.records)
    if not succeeded:
        print("\nThe demo did not succeed; see above.", file=sys.stderr)
    return status or (0 if succeeded else run_command.EXIT_FAILED)


def _pictures_work() -> bool:
    try:
        choice = select_gl("auto")
    except InvalidArgumentError as error:
        print(f"no camera pictures: {error}\n", flush=True)
        return False
    if choice.backend is None:
        print(f"no camera pictures: {choice.reason}\n", flush=True)
    return choice.backend is not None


def _run_arguments(folder: Path, with_images: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run_command.add_arguments(parser)
    words = ["--robots", "2", "--cap", "1", "--brain-delay-s", str(_BRAIN_DELAY_S)]
    words += ["--run-folder", str(folder)]
    if with_images:
        words += ["--images", "--video"]
    return parser.parse_args(words)


def _print_files(folder: Path) -> None:
    kinds = (
        ("*.trace.jsonl", "traces, one per process"),
        ("summary.json", "results"),
        ("timelines/*.png", "timelines"),
        ("*.mp4", "films at twice the robot's speed"),
        ("*.gif", "films at twice the robot's speed"),
        ("*.sheet.png", "contact sheets"),
    )
    print("\nFiles:")
    for pattern, what in kinds:
        names = sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))
        if names:
            print(f"  {folder}/  {', '.join(names)}  ({what})")
    python = python_command()
    print(
        "\nNext:\n"
        f"  {python} -m robot_sdk trace {shlex.quote(str(folder))} --json\n"
        "      the same table for machines\n"
        f"  {python} -m sim run --tasks 0-9 --robots 2 --json out/ten.json\n"
        "      all ten tasks\n"
        f"  {python} -m sim run --tasks 0 --pace realtime --policy-delay-ms 400\n"
        "      watch it starve; the episode fails, as it should\n"
        f"  {python} examples/01_first_robot.py\n"
        "      the SDK with a robot of your own",
        flush=True,
    )
