"""`python -m sim replay`: a fleet in virtual time, with the server's decisions."""

from __future__ import annotations

import argparse
import json
import sys

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from sim.cli import replay_live, replay_options
from sim.cli.indices import parse_indices
from sim.cli.replay_options import settings_of
from sim.cli.replay_output import (
    ProgressLine,
    check_outputs,
    complain,
    leave,
    options_of_inputs,
    options_of_outputs,
    title_of,
)
from sim.cli.replay_table import show
from sim.cli.stopping import sigterm_interrupts
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job, run_many
from sim.fleet.replay.settings import ReplaySettings

EXIT_CODES = (
    "exit codes: 0 all runs ended; 1 one could not be run, or a result not be written; 2 wrong "
    "arguments; 130 stopped by Ctrl-C or SIGTERM, what had been run until then is kept and marked "
    "as partial."
)
_MOST_SEEDS = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `replay`."""
    replay_options.add_arguments(parser)
    replay_live.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Replay; returns one of the exit codes of `EXIT_CODES`."""
    with sigterm_interrupts():
        return replay_live.run(args) if args.live is not None else _run(args)


def _run(args: argparse.Namespace) -> int:
    results: list[ReplayResult] = []
    bar = ProgressLine()
    code = 0
    try:
        replay_live.check_unused(args)
        settings = settings_of(args)
        seeds = parse_indices("--seeds", args.seeds, _MOST_SEEDS)
        check_outputs(options_of_outputs(args), options_of_inputs(args))
        jobs = [Job(settings, seed) for seed in seeds]
        runs = run_many(
            jobs,
            processes=args.processes,
            study_folder=args.study_folder if args.engine == "study" else None,
            store=args.store,
            on_progress=lambda now: bar.show(str(now), now.elapsed_s),
        )
    except InvalidArgumentError as error:
        complain(error)
        return 2
    except RobotSdkError as error:
        complain(error)
        return 1
    except KeyboardInterrupt:
        print("interrupted: no run had begun", file=sys.stderr)
        return 130
    try:
        results.extend(runs)
    except KeyboardInterrupt:
        code = 130
    except RobotSdkError as error:
        bar.clear()
        complain(error)
        code = 1
    bar.clear()
    if results:
        version = results[0].engine_version
        title = title_of(
            settings, _policy(settings), f"vLLM {version}", settings.engine.pool_blocks
        )
        written, is_written = leave(args, settings.to_json(), seeds, results, title)
        # An interrupted run is shorter than the others.
        minutes = round(max(result.duration_s for result in results) / 60, 2)
        show(results, f"vLLM {version}, {minutes:g} virtual minutes, robots' view", written)
        code = code or int(not is_written)
    if code == 130:
        what = "runs marked * are partial" if results else "no run had begun"
        print(f"interrupted: {what}", file=sys.stderr)
    return code


def _policy(settings: ReplaySettings) -> str:
    """By name, with what was set of it."""
    admission = settings.admission
    given = ", ".join(f"{name}={json.dumps(value)}" for name, value in admission.settings.items())
    return admission.policy + (f" ({given})" if given else "")
