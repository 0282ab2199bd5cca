"""`python -m sim workload`: episodes to replay: made, checked, recorded, imported, shown."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from server.result_path import check_result_path
from sim.files import is_same_file
from sim.fleet.workload.figures import draw_gaps, draw_growth, families
from sim.fleet.workload.generator import generate
from sim.fleet.workload.importer import import_calls
from sim.fleet.workload.json_fields import MAX_TEXT_CHARS
from sim.fleet.workload.marginals import Marginal, marginals
from sim.fleet.workload.recorder import record
from sim.fleet.workload.summary import summarise
from sim.fleet.workload.trace import EpisodeTrace
from sim.fleet.workload.trace_file import read_traces, write_traces
from sim.paper.plot import pyplot

EXIT_CODES = (
    "exit codes: 0 done; 1 a figure is further off than allowed, or no episode could be recorded; "
    "2 wrong arguments or a file that is not valid."
)
_ALLOWED_DIFFERENCE = 0.03
_MOST = 2**31 - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `workload`."""
    actions = parser.add_subparsers(dest="action", required=True)

    def action(name: str, text: str, function: Callable[[argparse.Namespace], int]) -> Any:
        own = actions.add_parser(name, help=text, description=text, epilog=EXIT_CODES)
        own.set_defaults(workload=function)
        return own

    made = action("generate", "80 episodes with the study's figures, as a trace file", _generate)
    made.add_argument("--seed", type=_whole, default=0)
    made.add_argument("--out", type=Path, required=True, metavar="FILE")

    checked = action("check", "every published figure of the workload: theirs, ours", _check)
    checked.add_argument("file", type=Path, nargs="?", help="default: what `generate` makes")
    checked.add_argument("--seed", type=_whole, default=0, help="of `generate`")

    recorded = action("record", "traces out of the run folder of a real run", _record)
    recorded.add_argument("folder", type=Path, help="run folder of `python -m sim run`, or any")
    recorded.add_argument("--out", type=Path, required=True, metavar="FILE")

    imported = action("import", "traces out of token counts of other agents", _import)
    imported.add_argument("file", type=Path, help="JSON lines, one call each; see sim/README.md")
    imported.add_argument("--out", type=Path, required=True, metavar="FILE")
    imported.add_argument(
        "--family", type=_family, default="imported", help="of sessions that name none"
    )
    imported.add_argument(
        "--compaction-keeps",
        type=_whole,
        default=0,
        metavar="TOKENS",
        help="leading tokens that a prompt keeps which is shorter than what was before, where its "
        "line does not say; default: none",
    )

    shown = action("show", "what is in a trace file", _show)
    shown.add_argument("file", type=Path)
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--png", type=Path, metavar="FILE", help="draw growth and gaps")


def run(args: argparse.Namespace) -> int:
    """Do one of them; returns one of the exit codes of `EXIT_CODES`."""
    action: Callable[[argparse.Namespace], int] = args.workload
    try:
        return action(args)
    except RobotSdkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _generate(args: argparse.Namespace) -> int:
    check_result_path(args.out, "--out")
    return _write(args.out, generate(args.seed))


def _check(args: argparse.Namespace) -> int:
    traces = generate(args.seed) if args.file is None else read_traces(args.file)
    rows = marginals(traces)
    print(f"{'':24} {'':42} {'study':>12} {'ours':>12} {'difference':>11}")
    for row in rows:
        print(_line(row))
    off = [row for row in rows if abs(row.difference or 0.0) > _ALLOWED_DIFFERENCE]
    unknown = sum(row.ours is None for row in rows)
    print(
        f"{len(rows)} figures; {len(off)} further off than {_ALLOWED_DIFFERENCE:.0%}"
        f"{f'; {unknown} that the traces do not give' if unknown else ''}. "
        "* not printed by the study: follows from its tokens a minute"
    )
    return 1 if off else 0


def _line(row: Marginal) -> str:
    difference = "" if row.difference is None else f"{row.difference:+11.2%}"
    name = f"{row.quantity}{f' [{row.unit}]' if row.unit else ''}{' *' if row.derived else ''}"
    return f"{row.row:24} {name:42} {_text(row.study):>12} {_text(row.ours):>12} {difference}"


def _record(args: argparse.Namespace) -> int:
    check_result_path(args.out, "--out")
    recording = record(args.folder)
    for note in recording.notes:
        print(f"note: {note}")
    for episode, reason in recording.left_out.items():
        print(f"left out: episode {episode}: {reason}")
    if not recording.traces:
        print("error: no episode of this run can be replayed", file=sys.stderr)
        return 1
    return _write(args.out, recording.traces)


def _import(args: argparse.Namespace) -> int:
    check_result_path(args.out, "--out")
    if is_same_file(args.out, args.file):
        raise InvalidArgumentError(
            "the calls would be lost", field="--out", value=args.out, allowed=("another file",)
        )
    imported = import_calls(args.file, args.family, args.compaction_keeps)
    if imported.num_compactions:
        print(
            f"note: {imported.num_compactions} prompts keep less than all before them; for "
            f"{imported.num_kept_assumed} of them {args.compaction_keeps} kept tokens are assumed"
        )
    return _write(args.out, imported.traces)


def _show(args: argparse.Namespace) -> int:
    if args.png is not None:
        check_result_path(args.png, "--png")
        pyplot()  # ends here where matplotlib is missing
    traces = read_traces(args.file)
    summary = summarise(traces)
    if args.json:
        print(json.dumps(summary, indent=1))
    else:
        for line in _summary_lines(summary):
            print(line)
        for family in families(traces):
            own = [trace for trace in traces if trace.task_family == family]
            medians = summarise(own)
            print(
                f"  {family}: {len(own)} episodes, median {medians['turns_per_episode']['p50']:g} "
                f"turns, peak {medians['peak_context_tokens']['p50']:,.0f} tokens"
            )
    if args.png is not None:
        try:
            _draw(traces, args.png)
        except OSError as error:
            print(f"error: --png: cannot write {args.png}: {error.strerror}", file=sys.stderr)
            return 2
        print(f"wrote {args.png}", file=sys.stderr)
    return 0


def _summary_lines(summary: dict[str, Any]) -> list[str]:
    lines = [
        f"{summary['episodes']} episodes ({', '.join(summary['sources'])}), {summary['turns']} "
        f"turns, {summary['chunks']} chunks, {summary['compactions']} compactions"
    ]
    if summary["tokens_estimated"]:
        lines.append("token counts are estimated, at least some of them")
    if summary["zero_step_share"] is not None:
        lines.append(f"{summary['zero_step_share']:.1%} of the intervals move nothing")
    lines.append(f"{'':22}{'count':>8}{'mean':>12}{'p50':>12}{'p90':>12}{'max':>12}")
    for name, quantiles in summary.items():
        if isinstance(quantiles, dict):
            values = "".join(f"{_text(quantiles[of]):>12}" for of in ("mean", "p50", "p90", "max"))
            lines.append(f"{name:22}{quantiles['count']:>8}{values}")
    return lines


def _draw(traces: Sequence[EpisodeTrace], path: Path) -> None:
    plt = pyplot()
    figure, (growth, gaps) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    draw_growth(growth, traces)
    draw_gaps(gaps, traces)
    figure.savefig(path, dpi=120, format="png")
    plt.close(figure)


def _write(path: Path, traces: Sequence[EpisodeTrace]) -> int:
    try:
        write_traces(path, traces)
    except OSError as error:
        print(f"error: --out: cannot write {path}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"wrote {path}: {len(traces)} episodes, {sum(len(t.turns) for t in traces)} turns")
    return 0


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _family(text: str) -> str:
    if not text or not text.isprintable() or len(text) > MAX_TEXT_CHARS:
        raise argparse.ArgumentTypeError(f"not 1 to {MAX_TEXT_CHARS} characters on one line")
    return text


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= _MOST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 0 to {_MOST}")
    return value
