"""`python -m sim replay`: a fleet in virtual time, with the server's decisions."""

from __future__ import annotations

import argparse
import sys

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from sim.cli import replay_live, replay_options
from sim.cli.plan import parse_indices
from sim.cli.replay_options import settings_of
from sim.cli.replay_output import ProgressLine, check_outputs, leave, show
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job, run_many

EXIT_CODES = (
    "exit codes: 0 all runs ended; 1 one could not be run; 2 wrong arguments; 130 interrupted, "
    "what had been run until then is kept and marked as partial."
)
_MOST_SEEDS = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `replay`."""
    replay_options.add_arguments(parser)
    replay_live.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Replay; returns one of the exit codes of `EXIT_CODES`."""
    if args.live is not None:
        return replay_live.run(args)
    results: list[ReplayResult] = []
    try:
        replay_live.check_unused(args)
        settings = settings_of(args)
        seeds = parse_indices("seeds", args.seeds, _MOST_SEEDS)
        check_outputs((args.json, args.picture, args.store))
        jobs = [Job(settings, seed) for seed in seeds]
        study_folder = args.study_folder if args.engine == "study" else None
        bar = ProgressLine()
        runs = run_many(
            jobs,
            processes=args.processes,
            study_folder=study_folder,
            store=args.store,
            on_progress=lambda now: bar.show(str(now), now.elapsed_s),
        )
    except InvalidArgumentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        results.extend(runs)
        code = 0
    except KeyboardInterrupt:
        code = 130
    except RobotSdkError as error:
        bar.clear()
        print(f"error: {error}", file=sys.stderr)
        code = 1
    bar.clear()
    if results:
        version, minutes = results[0].engine_version, results[0].duration_s / 60
        show(results, f"vLLM {version}, {minutes:g} virtual minutes, robots' view")
        robots = ", ".join(str(point.num_robots) for point in settings.fleet)
        title = f"{robots} robots, {settings.admission.policy}, vLLM {version}"
        leave(args, settings, seeds, results, title)
    if code == 130:
        print("interrupted: runs marked * are partial", file=sys.stderr)
    return code
