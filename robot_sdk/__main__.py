"""`python -m robot_sdk`: look at traces and at a running server.

Exit codes: 0 done, 1 the server cannot be reached or refuses, 2 bad input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from robot_sdk import status
from robot_sdk.errors import InvalidArgumentError, MissingExtraError, RobotSdkError
from robot_sdk.trace import cli as trace_cli
from robot_sdk.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m robot_sdk", description=__doc__)
    parser.add_argument("--version", action="version", version=f"robot_sdk {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    trace = commands.add_parser(
        "trace", help="what happened in a run", description=trace_cli.DESCRIPTION
    )
    trace_cli.add_arguments(trace)
    trace.set_defaults(run=trace_cli.run)
    state = commands.add_parser(
        "status", help="what a server is doing", description=status.DESCRIPTION
    )
    status.add_arguments(state)
    state.set_defaults(run=status.run)
    parsed = parser.parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # `... | head` closed its end. Point stdout elsewhere so that the exit does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (InvalidArgumentError, MissingExtraError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RobotSdkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
