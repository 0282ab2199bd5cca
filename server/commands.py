"""The commands beside serving: `python -m server COMMAND ...`, each loaded only when it is run."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from robot_sdk.errors import InvalidArgumentError, MissingExtraError, RobotSdkError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        entry: `module:function`; the function takes the arguments and returns the exit code.
        help: One line for --help.
        extra: Extra of this project that brings what the module imports.
    """

    entry: str
    help: str
    extra: str = "server"


COMMANDS: Mapping[str, Command] = {
    "plan": Command(
        "server.capacity.plan:main", "how many robots a box carries, which tier binds, and why"
    ),
    "cliff": Command(
        "server.capacity.cliff.command:main",
        "find where prefixes stop surviving, on vLLM's scheduler or on a tiny engine",
        extra="vllm",
    ),
    "profile-policy": Command(
        "server.policy.profile:main", "measure a policy's latency by batch size", extra="pi05"
    ),
}


def run(name: str, arguments: list[str]) -> int:
    """Run a command.

    Returns:
        The command's exit code; 1 where a server cannot be reached or refuses, 2 for bad input or
        a missing extra, 130 after Ctrl-C. The error is one line on stderr.
    """
    command = COMMANDS[name]
    try:
        code = _entry(command)(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # `... | head` closed its end. Point stdout elsewhere so that the exit does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (InvalidArgumentError, MissingExtraError, OSError) as error:
        return _failed(error, EXIT_USAGE)
    except RobotSdkError as error:
        return _failed(error, EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return int(code)


def listing() -> str:
    """The commands for --help, one a line."""
    width = max(map(len, COMMANDS))
    return "\n".join(f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items())


def _entry(command: Command) -> Callable[[list[str]], int]:
    module_name, _, function = command.entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] == "server":
            raise
        raise MissingExtraError(
            f"{missing.name} is not installed; run: pip install -e '.[{command.extra}]'"
        ) from None
    entry: Callable[[list[str]], int] = getattr(module, function)
    return entry


def _failed(error: Exception, code: int) -> int:
    sys.stderr.write(f"error: {error}\n")
    return code
