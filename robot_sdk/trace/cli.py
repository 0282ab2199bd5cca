"""`python -m robot_sdk trace FOLDER`: what happened in a run, as a table, JSON or pictures."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, nearest
from robot_sdk.trace.clocks_plot import draw_clocks
from robot_sdk.trace.join import EpisodeTrace, JoinedRun, join
from robot_sdk.trace.reader import read_folder
from robot_sdk.trace.report import build_report
from robot_sdk.trace.table import render
from robot_sdk.trace.timeline import draw_timeline

DESCRIPTION = """\
Reads every *.trace.jsonl of a run folder, joins the processes by trace and span ids, and prints the
three clocks, where the time of a turn and of a chunk went, ticks and episodes. Works on the files
of running processes. The env-step gap is steps while a tool was active, held ones included, divided
by the control rate; in a zero-step interval no tool took a step. Quantiles interpolate linearly.
Exit codes: 0 done, 2 bad input."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="run folder, or one trace file")
    parser.add_argument("--json", action="store_true", help="print JSON (schema robot_sdk.trace/1)")
    parser.add_argument("--study", action="store_true", help="show the study's figures under ours")
    parser.add_argument(
        "--episode", metavar="ID", help="only this episode; the start of an id does"
    )
    parser.add_argument(
        "--png",
        type=Path,
        metavar="PATH",
        help="draw timelines: a file ending in .png for one episode, else a folder",
    )
    parser.add_argument(
        "--clocks-png", type=Path, metavar="FILE", help="draw the distribution of the three clocks"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code.

    Raises:
        InvalidArgumentError: Bad folder or episode id.
        MissingExtraError: A picture is asked for and matplotlib is not installed.
    """
    folder: Path = arguments.folder
    run_folder = read_folder(folder)
    joined = join(run_folder.spans)
    if arguments.episode is not None:
        joined = JoinedRun([_choose(joined.episodes, arguments.episode)], [])
    report = build_report(str(folder), run_folder, joined)
    if arguments.json:
        print(json.dumps(_finite(report.to_json()), indent=2, ensure_ascii=False))
    else:
        print(render(report, with_study=arguments.study))
    written: list[Path] = []
    if arguments.png is not None:
        written += _draw_timelines(joined.episodes, arguments.png)
    if arguments.clocks_png is not None:
        draw_clocks(joined.episodes, arguments.clocks_png, with_study=arguments.study)
        written.append(arguments.clocks_png)
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
    return 0


def _choose(episodes: Sequence[EpisodeTrace], wanted: str) -> EpisodeTrace:
    exact = [episode for episode in episodes if wanted in (episode.id, episode.key)]
    matches = exact or [episode for episode in episodes if episode.id.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    ids = [episode.id for episode in episodes]
    raise InvalidArgumentError(
        "several episodes start so" if matches else "there is no such episode in this folder",
        field="--episode",
        value=wanted,
        allowed=[episode.id for episode in matches] or nearest(wanted, ids) or ids[:10],
    )


def _draw_timelines(episodes: Sequence[EpisodeTrace], path: Path) -> list[Path]:
    if not episodes:
        raise InvalidArgumentError(
            "there is no episode to draw", field="--png", hint="the trace files hold no turn yet"
        )
    if path.suffix.lower() == ".png":
        if len(episodes) > 1:
            raise InvalidArgumentError(
                f"{len(episodes)} episodes do not fit into one picture",
                field="--png",
                value=path,
                allowed=[episode.id for episode in episodes[:10]],
                hint="choose one with --episode, or give a folder",
            )
        draw_timeline(episodes[0], path)
        return [path]
    paths: list[Path] = []
    for episode in episodes:
        name = "".join(char if char.isalnum() or char in "-_" else "_" for char in episode.id)
        paths.append(path / f"{name}.timeline.png")
        draw_timeline(episode, paths[-1])
    return paths


def _finite(value: Any) -> Any:
    """`value` with NaN and infinity as None, which JSON cannot hold."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
