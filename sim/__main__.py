"""`python -m sim`: see --help."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

try:
    from sim.cli import demo, fit_cost, pacing, paper, replay, run, workload
except ModuleNotFoundError as missing:
    sys.exit(f'error: {missing.name} is not installed; run: pip install -e ".[sim,server]"')
except KeyboardInterrupt:  # loading takes seconds, too
    sys.exit(130)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sim", description="LIBERO-PRO episodes through a server."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run.add_arguments(
        commands.add_parser("run", help="run episodes", allow_abbrev=False, epilog=run.EXIT_CODES)
    )
    demo.add_arguments(
        commands.add_parser(
            "demo", help="two robots, one place on the server", epilog=demo.EXIT_CODES
        )
    )
    pacing.add_arguments(
        commands.add_parser(
            "pacing",
            help="robots in real time against a policy that takes the study's time",
            epilog=pacing.EXIT_CODES,
        )
    )
    paper.add_arguments(
        commands.add_parser(
            "paper", help="tables and figures of the study, made anew", epilog=paper.EXIT_CODES
        )
    )
    replay.add_arguments(
        commands.add_parser(
            "replay",
            help="a fleet in virtual time, with the server's decisions and vLLM's scheduler",
            allow_abbrev=False,
            epilog=replay.EXIT_CODES,
        )
    )
    workload.add_arguments(
        commands.add_parser(
            "workload",
            help="episodes to replay: made, checked, recorded, imported, shown",
            allow_abbrev=False,
            epilog=workload.EXIT_CODES,
        )
    )
    fit_cost.add_arguments(
        commands.add_parser(
            "fit-cost",
            help="a cost table for the replay from measured latencies of single turns",
            allow_abbrev=False,
            epilog=fit_cost.EXIT_CODES,
        )
    )
    args = parser.parse_args(arguments)
    try:
        code = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # `... | head` closed its end.
        _forget_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _forget_output()
        print(f"error: the disk is full: {error.filename or 'standard output'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _forget_output() -> None:
    """Point stdout elsewhere, so that the exit does not complain of what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(args: argparse.Namespace) -> int:
    if args.command == "run":
        return run.run(args)
    if args.command == "pacing":
        return pacing.run(args)
    if args.command == "paper":
        return paper.run(args)
    if args.command == "fit-cost":
        return fit_cost.run(args)
    if args.command == "replay":
        return replay.run(args)
    if args.command == "workload":
        return workload.run(args)
    return demo.run(args)


if __name__ == "__main__":
    sys.exit(main())
