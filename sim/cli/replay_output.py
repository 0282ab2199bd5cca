"""What `python -m sim replay` leaves: JSON file and picture; and its progress."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from robot_sdk.version import __version__
from server.result_path import check_result_path
from sim.cli.indices import format_indices
from sim.cli.replay_table import summary
from sim.files import is_file, write_whole
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import EngineChoice, ReplaySettings, WorkloadChoice
from sim.machine import machine
from sim.paper.plot import pyplot

#: Letters of a line above a picture.
_TITLE_WIDTH = 100
#: Of a command line: options with the files that they name.
_Files = Mapping[str, "Path | None"]


def options_of_outputs(args: argparse.Namespace) -> _Files:
    """Files that a replay leaves."""
    return {"--json": args.json, "--picture": args.picture, "--store": args.store}


def options_of_inputs(args: argparse.Namespace) -> _Files:
    """Files that a replay reads, as far as they are there."""
    found = {"--mix": Path(args.mix), "--cost": Path(args.cost)}
    return {option: path for option, path in found.items() if is_file(path)}


def check_outputs(outputs: _Files, inputs: _Files) -> None:
    """Before anything is computed.

    Ends the program where a picture is asked for and matplotlib is not installed.

    Raises:
        InvalidArgumentError: A file cannot be written, or is an input or another output as well,
            or is "-".
    """
    owner = {path.resolve(): option for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        if str(path) == "-":
            raise InvalidArgumentError(
                "standard output has the table", field=option, value="-", allowed=("a file",)
            )
        check_result_path(path, option)
        other = owner.setdefault(path.resolve(), option)
        if other != option and (path.is_file() or not path.exists()):
            raise InvalidArgumentError(
                f"the same file as {other}",
                field=option,
                value=path,
                allowed=("a file of its own",),
            )
    if outputs.get("--picture") is not None:
        pyplot()


#: Settings that have another unit than the option they come from.
_IN_SECONDS = {
    "duration_s": "--minutes",
    "warm_up_s": "--warm-up-minutes",
    "round_trip_s": "--round-trip-ms",
}


def complain(error: RobotSdkError) -> None:
    """One line on stderr."""
    option = _IN_SECONDS.get(error.field)
    where = f" [s]; set by {option}" if option else ""
    print(f"error: {error}{where}", file=sys.stderr)


class ProgressLine:
    """One line on a terminal that is written again and again; a line now and then elsewhere."""

    _INTERVAL_S = 30.0

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._told_s = 0.0
        self._width = 0

    def show(self, text: str, elapsed_s: float) -> None:
        """How far it is, `elapsed_s` after the start."""
        if self._is_terminal:
            self._width = max(self._width, len(text))
            print(f"\r{text:{self._width}}", end="", file=sys.stderr, flush=True)
        elif elapsed_s - self._told_s >= self._INTERVAL_S:
            self._told_s = elapsed_s
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._is_terminal and self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)


def title_of(
    settings: ReplaySettings, policy: str, engine: str, pool_blocks: int | None = None
) -> str:
    """Of a picture: robots, policy, engine, and mix and pool where they are not the usual ones.

    Args:
        settings: Of all runs.
        policy: With what is set of it.
        engine: What serves the brain.
        pool_blocks: Of that engine; None: the usual one, or not known.
    """
    robots = ", ".join(str(point.num_robots) for point in settings.fleet)
    parts = [f"{robots} robots", policy, engine]
    if settings.workload.mix != WorkloadChoice.mix:
        parts.append(f"mix {Path(settings.workload.mix).name}")
    if pool_blocks not in (None, EngineChoice.pool_blocks):
        parts.append(f"pool {pool_blocks} blocks")
    return ", ".join(parts)


def leave(
    args: argparse.Namespace,
    settings: Mapping[str, Any],
    seeds: Sequence[int],
    results: Sequence[ReplayResult],
    title: str,
    more: Mapping[str, Any] | None = None,
) -> tuple[list[str], bool]:
    """Write the files that were asked for. To be called before anything is printed: whoever reads
    the output may have gone.

    Args:
        args: With `json` and `picture`.
        settings: Of all runs, as plain values.
        seeds: That were to be run.
        results: Of those that were.
        title: Of the picture.
        more: Goes into the JSON file, too.

    Returns:
        Lines that say what was written, and whether all was. What could not be is told on stderr.
    """
    written: list[str] = []
    is_complete = True

    def write(path: Path | None, option: str, into: Callable[[Path], None]) -> None:
        nonlocal is_complete
        if path is None:
            return
        try:
            into(path)
            written.append(f"wrote {path}")
        except OSError as error:
            is_complete = False
            print(f"error: {option}: cannot write {path}: {error.strerror}", file=sys.stderr)

    def write_json(path: Path) -> None:
        content = {
            "made_with": f"robot-sdk {__version__}",
            "made_on": machine(),
            "command": shlex.join(["python", "-m", "sim", *sys.argv[1:]]),
            "settings": dict(settings),
            "seeds": list(seeds),
            "partial": len(results) < len(seeds) or any(run.is_partial for run in results),
            "summary": summary(results),
            "results": [result.to_json() for result in results],
            **(more or {}),
        }
        write_whole(path, json.dumps(content, indent=1) + "\n")

    def draw(path: Path) -> None:
        from sim.paper.windows_plot import INSIDE_PANELS, STUDY_PANELS, draw_windows

        several = "seeds" if len(results) > 1 else "seed"
        name = f"{several} {format_indices([run.seed for run in results])}"
        wrapped = textwrap.fill(title, _TITLE_WIDTH)
        draw_windows({name: results}, path, STUDY_PANELS + INSIDE_PANELS, wrapped)

    write(args.json, "--json", write_json)
    write(args.picture, "--picture", draw)
    return written, is_complete
