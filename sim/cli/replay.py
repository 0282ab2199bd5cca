"""`python -m sim replay`: a fleet in virtual time, with the server's decisions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from robot_sdk.version import __version__
from sim.cli.output import why_unusable
from sim.cli.plan import parse_indices
from sim.cli.replay_options import add_arguments, settings_of
from sim.cli.result_file import machine
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job, Progress, run_many
from sim.fleet.replay.settings import ReplaySettings
from sim.fleet.statistics import SeedMean, seed_mean

__all__ = ["EXIT_CODES", "add_arguments", "run"]

EXIT_CODES = (
    "exit codes: 0 all runs ended; 1 one could not be run; 2 wrong arguments; 130 interrupted, "
    "what had been run until then is kept and marked as partial."
)
_MOST_SEEDS = 10_000

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


def run(args: argparse.Namespace) -> int:
    """Replay; returns one of the exit codes of `EXIT_CODES`."""
    results: list[ReplayResult] = []
    try:
        settings = settings_of(args)
        seeds = parse_indices("seeds", args.seeds, _MOST_SEEDS)
        for path in (args.json, args.picture, args.store):
            problem = why_unusable(path.parent) if path is not None else None
            if problem is not None:
                raise InvalidArgumentError(problem, field="output", value=path)
        jobs = [Job(settings, seed) for seed in seeds]
        study_folder = args.study_folder if args.engine == "study" else None
        bar = _ProgressLine()
        runs = run_many(
            jobs,
            processes=args.processes,
            study_folder=study_folder,
            store=args.store,
            on_progress=bar.show,
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
        _show(results)
        _leave(args, settings, seeds, results)
    if code == 130:
        print("interrupted: runs marked * are partial", file=sys.stderr)
    return code


class _ProgressLine:
    """One line on a terminal that is written again and again; a line now and then elsewhere."""

    _INTERVAL_S = 30.0

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._told_s = 0.0
        self._width = 0

    def show(self, progress: Progress) -> None:
        """How far it is."""
        text = str(progress)
        if self._is_terminal:
            self._width = max(self._width, len(text))
            print(f"\r{text:{self._width}}", end="", file=sys.stderr, flush=True)
        elif progress.elapsed_s - self._told_s >= self._INTERVAL_S:
            self._told_s = progress.elapsed_s
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._is_terminal and self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)


def _show(results: Sequence[ReplayResult]) -> None:
    first = results[0]
    print(f"vLLM {first.engine_version}, {first.duration_s / 60:g} virtual minutes, robots' view")
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


def _leave(
    args: argparse.Namespace,
    settings: ReplaySettings,
    seeds: Sequence[int],
    results: Sequence[ReplayResult],
) -> None:
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
        }
        args.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {args.json}")
    if args.picture is not None:
        from sim.paper.windows_plot import INSIDE_PANELS, STUDY_PANELS, draw_windows

        robots = ", ".join(str(point.num_robots) for point in settings.fleet)
        title = f"{robots} robots, {settings.admission.policy}, vLLM {results[0].engine_version}"
        draw_windows(
            {f"{len(results)} seeds": results}, args.picture, STUDY_PANELS + INSIDE_PANELS, title
        )
        print(f"wrote {args.picture}")
