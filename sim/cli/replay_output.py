"""What `python -m sim replay` shows and leaves: progress, table, JSON file, picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from robot_sdk.version import __version__
from server.result_path import check_result_path
from sim.files import is_file, write_whole
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.fleet.statistics import SeedMean, seed_mean
from sim.machine import machine
from sim.paper.plot import pyplot

#: Columns of the table: heading, width, digits, and what stands there.
_Column = tuple[str, int, int, Callable[[ReplayResult], "float | None"]]
_COLUMNS: tuple[_Column, ...] = (
    ("requests/s", 10, 3, lambda run: run.rps),
    ("hit", 6, 3, lambda run: run.hit),
    ("lowest", 6, 2, lambda run: run.lowest_window_hit_after_warm_up),
    ("ep/min", 6, 2, lambda run: run.episodes_per_min),
    ("Jain", 5, 3, lambda run: run.jain),
    ("Mprompt/min", 11, 2, lambda run: run.computed_prompt_tokens_per_min / 1e6),
    ("kout/min", 8, 1, lambda run: run.generated_tokens_per_min / 1e3),
    ("turn p50", 8, 1, lambda run: run.brain_latency_s["p50"]),
    ("p99 [s]", 7, 1, lambda run: run.brain_latency_s["p99"]),
    ("door p90", 8, 0, lambda run: run.door_wait_s["p90"]),
    ("low hit at", 10, 0, lambda run: run.first_low_hit_s),
)
_NOTES = (
    "lowest: hit rate of the worst 120 s window after the warm-up. Mprompt: prompt tokens "
    "computed. low hit at: end of the first window under 80% [s]; -: none was."
)


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
        InvalidArgumentError: A file cannot be written, or is an input or another output as well.
    """
    owner = {path.resolve(): option for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
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


def show(results: Sequence[ReplayResult], heading: str, more: Sequence[str] = ()) -> None:
    """Print the table: a line for each run, what they have in common, and then `more` lines."""
    print(heading)
    print("seed    " + " ".join(f"{name:>{width}}" for name, width, _, _ in _COLUMNS))
    for result in results:
        mark = "*" if result.is_partial else ""
        values = [
            _shown(value_of(result), width, digits) for _, width, digits, value_of in _COLUMNS
        ]
        print(f"{result.seed:<7}{mark:1}" + " ".join(values))
    if len(results) > 1:
        for label, pick in (("mean", _mean), ("+-95%", _half)):
            cells = []
            for _, width, digits, value_of in _COLUMNS:
                over = seed_mean([value_of(result) for result in results])
                cells.append(_shown(None if over is None else pick(over), width, digits))
            print(f"{label:8}" + " ".join(cells))
    print(_NOTES)
    for warning in sorted({text for result in results for text in result.warnings}):
        print(f"warning: {warning}")
    for line in more:
        print(line)


def _mean(over: SeedMean) -> float | None:
    return over.mean


def _half(over: SeedMean) -> float | None:
    return None if over.high is None else over.high - over.mean


def _shown(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def leave(
    args: argparse.Namespace,
    settings: ReplaySettings,
    seeds: Sequence[int],
    results: Sequence[ReplayResult],
    title: str,
    more: Mapping[str, Any] | None = None,
) -> tuple[list[str], bool]:
    """Write the files that were asked for. To be called before anything is printed: whoever reads
    the output may have gone.

    Args:
        args: With `json` and `picture`.
        settings: Of all runs.
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
        summary = {}
        for name, _, _, value_of in _COLUMNS:
            over = seed_mean([value_of(result) for result in results])
            summary[name] = None if over is None else asdict(over)
        content = {
            "made_with": f"robot-sdk {__version__}",
            "made_on": machine(),
            "command": "python -m sim replay",
            "settings": settings.to_json(),
            "seeds": list(seeds),
            "partial": len(results) < len(seeds) or any(run.is_partial for run in results),
            "summary": summary,
            "results": [result.to_json() for result in results],
            **(more or {}),
        }
        write_whole(path, json.dumps(content, indent=1) + "\n")

    def draw(path: Path) -> None:
        from sim.paper.windows_plot import INSIDE_PANELS, STUDY_PANELS, draw_windows

        draw_windows({f"{len(results)} seeds": results}, path, STUDY_PANELS + INSIDE_PANELS, title)

    write(args.json, "--json", write_json)
    write(args.picture, "--picture", draw)
    return written, is_complete
