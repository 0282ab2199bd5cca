"""`python -m sim`: see --help."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import Protocol

try:
    from sim.cli import demo, fit_cost, pacing, paper, replay, run, workload
except ModuleNotFoundError as missing:
    sys.exit(f'error: {missing.name} is not installed; run: pip install -e ".[sim,server]"')
except KeyboardInterrupt:  # loading takes seconds, too
    sys.exit(130)


class _Command(Protocol):
    """A module of `sim.cli`."""

    EXIT_CODES: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...

    def run(self, args: argparse.Namespace, /) -> int: ...


#: By name: the module, its help, and whether options may be abbreviated.
_COMMANDS: dict[str, tuple[_Command, str, bool]] = {
    "run": (run, "run episodes", False),
    "demo": (demo, "two robots, one place on the server", True),
    "pacing": (
        pacing,
        "robots in real time against a policy that takes the study's time",
        True,
    ),
    "paper": (paper, "tables and figures of the study, made anew", True),
    "replay": (
        replay,
        "a fleet in virtual time, with the server's decisions and vLLM's scheduler",
        False,
    ),
    "workload": (workload, "episodes to replay: made, checked, recorded, imported, shown", False),
    "fit-cost": (
        fit_cost,
        "a cost table for the replay from measured latencies of single turns",
        False,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sim",
        description="Simulated robots against a server, fleets in virtual time, and the study's "
        "tables and figures.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (module, help_text, may_abbreviate) in _COMMANDS.items():
        command = commands.add_parser(
            name, help=help_text, allow_abbrev=may_abbreviate, epilog=module.EXIT_CODES
        )
        module.add_arguments(command)
    args = parser.parse_args(arguments)
    try:
        code = _COMMANDS[args.command][0].run(args)
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


if __name__ == "__main__":
    sys.exit(main())
