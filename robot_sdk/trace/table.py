"""A report as text for a terminal."""

from __future__ import annotations

from robot_sdk.plain_text import counted, one_line
from robot_sdk.trace import study
from robot_sdk.trace.report import Breakdown, EpisodeRow, Report
from robot_sdk.trace.stats import MIN_COUNT_FOR_P99

_CLOCK_TITLES = {
    "brain_latency": "brain latency",
    "env_step_gap": "env-step gap",
    "wall_clock_gap": "wall-clock gap",
    "brain_plus_env_step_gap": "brain + env-step gap",
    "brain_plus_wall_clock_gap": "brain + wall-clock gap",
}
_NAME_WIDTH = 26
_MAX_EPISODES = 60
_MAX_REASONS = 3
_MAX_PROBLEMS = 10


def render(report: Report, *, with_study: bool = False) -> str:
    """The whole report, without a line end at the end."""
    blocks = [
        _head(report),
        _clocks(report, with_study),
        _breakdown("a brain turn", report.turn),
        _breakdown("an action chunk", report.chunk),
        _tokens(report),
        _ticks(report),
        _episodes(report),
        _notes(report),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block)


def _head(report: Report) -> list[str]:
    return [
        f"{report.folder}: {counted(len(report.files), 'file')}, "
        f"{counted(report.num_spans, 'span')} of {', '.join(report.services) or 'no process'}, "
        f"{counted(len(report.episodes), 'episode')}"
    ]


def _clocks(report: Report, with_study: bool) -> list[str]:
    lines = [f"{'three clocks [s]':<{_NAME_WIDTH}}  count   median      P90      P99      max"]
    thin = False
    for name, title in _CLOCK_TITLES.items():
        summary = report.clocks_s[name]
        thin = thin or summary.p99_is_thin
        lines.append(
            f"  {title:<{_NAME_WIDTH - 2}}{summary.count:>7}{_cell(summary.p50)}"
            f"{_cell(summary.p90)}{_cell(summary.p99, summary.p99_is_thin)}"
            f"{_cell(summary.max)}"
        )
        if with_study:
            theirs = study.CLOCKS[name]
            count = "" if name == "brain_latency" else study.INTERVALS
            lines.append(
                f"  {'  the study':<{_NAME_WIDTH - 2}}{count:>7}{_cell(theirs.p50_s)}"
                f"{_cell(theirs.p90_s)}{_cell(None)}{_cell(theirs.max_s)}"
            )
    zero_steps = _share(report.zero_step_intervals, report.intervals_with_steps)
    lines.append(f"  zero-step intervals: {zero_steps}: no tool took a step")
    if with_study:
        lines.append(f"    the study: {_share(study.ZERO_STEP_INTERVALS, study.INTERVALS)}")
    if report.intervals_with_steps:
        lines.append(
            "  env-step gap: steps while a tool was active, held ones included / control rate"
        )
    unknown = report.intervals - report.intervals_with_steps
    if unknown:
        lines.append(f"  {counted(unknown, 'interval')} without a step count")
    if thin:
        lines.append(
            f"  * n < {MIN_COUNT_FOR_P99}: little more than the maximum. Quantiles interpolate "
            "linearly."
        )
    return lines


def _share(part: int, total: int) -> str:
    return f"{part} of {total}" + (f" ({part / total:.1%})" if total else "")


def _breakdown(title: str, breakdown: Breakdown) -> list[str]:
    if not breakdown.total.count:
        return []
    total = breakdown.total
    lines = [
        f"{title + ' [ms]':<{_NAME_WIDTH}}  count   median      P90    share",
        f"  {'whole':<{_NAME_WIDTH - 2}}{total.count:>7}{_ms(total.p50)}{_ms(total.p90)}",
    ]
    for part in breakdown.parts:
        share = "-" if part.share is None else f"{part.share:.1%}"
        name = part.name + (" (added)" if part.name == "modelled delay" else "")
        lines.append(
            f"  {name:<{_NAME_WIDTH - 2}}{part.summary.count:>7}{_ms(part.summary.p50)}"
            f"{_ms(part.summary.p90)}{share:>9}"
        )
    return lines


def _tokens(report: Report) -> list[str]:
    known = {name: summary for name, summary in report.tokens.items() if summary.count}
    if not known:
        return []
    label = "tokens a turn" + (" (estimated)" if report.tokens_estimated else "")
    lines = [f"{label:<{_NAME_WIDTH}}  count   median      P90      max"]
    for name, summary in known.items():
        lines.append(
            f"  {name:<{_NAME_WIDTH - 2}}{summary.count:>7}{_whole(summary.p50)}"
            f"{_whole(summary.p90)}{_whole(summary.max)}"
        )
    return lines


def _ticks(report: Report) -> list[str]:
    if all(value is None for value in report.ticks.values()):
        return []
    parts = [
        f"{name.replace('_', '-')} {value}"
        for name, value in report.ticks.items()
        if value is not None
    ]
    return ["control ticks: " + ", ".join(parts)]


def _episodes(report: Report) -> list[str]:
    if not report.episodes:
        return []
    lines = [
        "episodes  (id, robot, outcome, turns, chunks, steps under policy / scripted tools, acted, "
        "starved, start-wait, idle, queued, length)"
    ]
    lines += [_episode(row) for row in report.episodes[:_MAX_EPISODES]]
    hidden = len(report.episodes) - _MAX_EPISODES
    if hidden > 0:
        lines.append(f"  and {hidden} more; --json lists all")
    outcomes: dict[str, int] = {}
    for row in report.episodes:
        outcome = row.outcome or ("unknown" if row.finished else "running or lost")
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    lines.append("  " + ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))
    return lines


def _episode(row: EpisodeRow) -> str:
    outcome = row.outcome or ("no outcome" if row.finished else "running or lost")
    ticks = [_or_dash(row.ticks[name]) for name in ("acted", "starved", "start_wait", "idle")]
    text = (
        f"  {one_line(row.id[:12], 12):<12} {one_line(row.robot_id or '-', 14):<14} {outcome:<10} "
        f"{row.turns:>3} {row.chunks:>4} {_or_dash(row.policy_steps):>5} / "
        f"{_or_dash(row.scripted_steps):<5} {' '.join(f'{tick:>4}' for tick in ticks)} "
        f"{_seconds(row.queued_s):>8} {_seconds(row.duration_s):>8}"
    )
    if row.task:
        text += f"  {one_line(row.task, 60)}"
    if row.end_reason and row.outcome != "success":
        text += f"  ({one_line(row.end_reason, 100)})"
    return text


def _notes(report: Report) -> list[str]:
    lines: list[str] = []
    offsets = [
        (row.clock_offset_s, row.clock_bound_s)
        for row in report.episodes
        if row.clock_offset_s is not None
    ]
    if offsets:
        smallest, largest = (
            min(offset for offset, _ in offsets),
            max(offset for offset, _ in offsets),
        )
        bounds = [bound for _, bound in offsets if bound is not None]
        bound = f", at most {max(bounds) * 1e3:.3f} ms wrong" if bounds else ""
        lines.append(
            f"server clock - robot clock: {smallest:.6f} s to {largest:.6f} s{bound}; order across "
            "processes is by parent links"
        )
    modelled = [
        f"{total:.1f} s in {kind}" for kind, total in report.modelled_s.items() if total > 0
    ]
    if modelled:
        lines.append(f"modelled delays, added on purpose and no work: {', '.join(modelled)}")
    if report.tokens_estimated:
        lines.append("token counts are estimated by a rule of thumb, not counted by a tokenizer")
    server = report.server_spans
    for name, seen, total in (
        ("brain calls", server.decides_with_server_span, server.decides),
        ("chunks", server.chunks_with_server_span, server.chunks),
    ):
        if seen < total:
            lines.append(f"{total - seen} of {total} {name} have no server span in these files")
    failed = (
        sum(row.failed_turns for row in report.episodes),
        sum(row.failed_chunks for row in report.episodes),
    )
    if any(failed):
        lines.append(
            f"without an answer and left out of the table: {failed[0]} brain calls, "
            f"{failed[1]} observations"
        )
    for reason, count in list(report.failed_chunk_reasons.items())[:_MAX_REASONS]:
        lines.append(
            f"  {counted(count, 'observation')} without an answer: {one_line(reason, 160)}"
        )
    unused = sum(row.unused_chunks for row in report.episodes)
    if unused:
        lines.append(f"{counted(unused, 'chunk')} arrived and no row was used (late or refused)")
    if report.orphan_spans:
        names = [f"{name} ({n})" for name, n in report.orphan_span_names.items()]
        lines.append(
            f"{counted(report.orphan_spans, 'span')} of no episode (work of the server itself, or "
            "a parent that is still open or whose process's file is missing): "
            + one_line(", ".join(names[:_MAX_REASONS]), 160)
        )
    lines.append(f"dropped spans: {report.dropped_spans}")
    if report.unfinished_lines:
        lines.append(
            "last line incomplete (its process is writing, or died): "
            + ", ".join(report.unfinished_lines)
        )
    lines += report.problems[:_MAX_PROBLEMS]
    if len(report.problems) > _MAX_PROBLEMS:
        lines.append(f"and {len(report.problems) - _MAX_PROBLEMS} more problems; --json lists all")
    return lines


def _cell(value: float | None, marked: bool = False) -> str:
    text = "-" if value is None else f"{value:.3f}"
    return f"{text + '*' if marked else text + ' ':>9}"


def _ms(value_s: float | None) -> str:
    return f"{'-' if value_s is None else f'{value_s * 1e3:.1f}':>9}"


def _whole(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.0f}':>9}"


def _seconds(value_s: float | None) -> str:
    return "-" if value_s is None else f"{value_s:.1f} s"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
