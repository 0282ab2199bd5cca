"""What `python -m sim replay` shows and leaves: progress, table, JSON file, picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.version import __version__
from sim.cli.output import why_unusable
from sim.cli.result_file import machine
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.fleet.statistics import SeedMean, seed_mean

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


def check_outputs(paths: Iterable[Path | None]) -> None:
    """Raises:
    InvalidArgumentError: One of them cannot be written.
    """
    for path in paths:
        problem = why_unusable(path.parent) if path is not None else None
        if problem is not None:
            raise InvalidArgumentError(problem, field="output", value=path)


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


def show(results: Sequence[ReplayResult], heading: str) -> None:
    """Print the table: a line for each run, and what they have in common."""
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
) -> None:
    """Write the files that were asked for.

    Args:
        args: With `json` and `picture`.
        settings: Of all runs.
        seeds: That were to be run.
        results: Of those that were.
        title: Of the picture.
        more: Goes into the JSON file, too.
    """
    if args.json is not None:
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
        args.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {args.json}")
    if args.picture is not None:
        from sim.paper.windows_plot import INSIDE_PANELS, STUDY_PANELS, draw_windows

        draw_windows(
            {f"{len(results)} seeds": results}, args.picture, STUDY_PANELS + INSIDE_PANELS, title
        )
        print(f"wrote {args.picture}")
