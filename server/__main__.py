"""`python -m server`: see --help."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from robot_sdk.errors import RobotSdkError, nearest
from server import commands
from server import config as configuration
from server.config import Config, ConfigError
from server.config_options import add_config_options
from server.worker.allocator import keep_freed_memory
from server.worker.garbage import leave_out_what_was_loaded

EXIT_USAGE = 2
EXIT_LOAD = 3


def main(arguments: list[str] | None = None) -> int:
    """Serve, or run a command.

    Returns:
        Of serving: 0 after a drain, 2 for a wrong configuration or a port in use, 3 when a model
        cannot load. Of a command: see `server.commands.run`.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and not arguments[0].startswith("-"):
        return _command(arguments[0], arguments[1:])
    args = _parser().parse_args(arguments)
    try:
        config = configuration.load(args.config, args.set)
        if args.print_config:
            print(configuration.render(config), end="")
            return 0
        return _serve(config, args.ready_file)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE


def _command(name: str, arguments: list[str]) -> int:
    if name not in commands.COMMANDS:
        near = nearest(name, commands.COMMANDS)
        print(
            f"error: there is no command {name!r}; known: {', '.join(commands.COMMANDS)}"
            + (f"; did you mean {near[0]}?" if near else "")
            + ". Without a command it serves; see --help.",
            file=sys.stderr,
        )
        return EXIT_USAGE
    return commands.run(name, arguments)


def _serve(config: Config, ready_file: Path | None) -> int:
    logging.basicConfig(
        level=config.server.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        from server.app import App, LoadError, write_ready_file
        from server.rpc.front_end import PortInUseError
    except ImportError as error:
        print(
            f"error: {error.name} is not installed; run: pip install -e '.[server]'",
            file=sys.stderr,
        )
        return EXIT_USAGE

    keep_freed_memory()

    async def run() -> None:
        app = App(config)

        def on_ready(port: int) -> None:
            leave_out_what_was_loaded()
            if ready_file is not None:
                write_ready_file(ready_file, config.server.host, port, app.boot_id)
            print(f"listening on {config.server.host}:{port}", flush=True)

        await app.serve(on_ready)

    try:
        asyncio.run(run())
    except (PortInUseError, RobotSdkError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except LoadError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_LOAD
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m server",
        description="Serves brain and action policies to robots.",
        epilog="commands (each has its own --help; without one it serves):\n" + commands.listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_options(parser)
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print the configuration with every setting explained, and exit",
    )
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="PATH",
        help="write {host, port, pid, boot_id} as JSON there once robots can be served",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
