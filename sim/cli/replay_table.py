"""The table of `python -m sim replay`: a line for each run, their mean, and what is to be known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sim.cli.indices import format_indices
from sim.fleet.replay.result import ReplayResult
from sim.fleet.statistics import SeedMean, seed_mean

#: Heading, width, digits, and what stands there.
Column = tuple[str, int, int, Callable[[ReplayResult], "float | None"]]
_ALWAYS: tuple[Column, ...] = (
    ("requests/s", 10, 3, lambda run: run.rps),
    ("hit", 6, 3, lambda run: run.hit),
    ("lowest", 6, 2, lambda run: run.lowest_window_hit_after_warm_up),
    ("ep/min", 6, 2, lambda run: run.episodes_per_min),
    ("Jain", 5, 3, lambda run: run.jain),
    ("Mprompt/min", 11, 2, lambda run: run.computed_prompt_tokens_per_min / 1e6),
    ("kout/min", 8, 1, lambda run: run.generated_tokens_per_min / 1e3),
    ("turn p50 [s]", 12, 1, lambda run: run.brain_latency_s["p50"]),
    ("turn p99 [s]", 12, 1, lambda run: run.brain_latency_s["p99"]),
    ("door p90 [s]", 12, 0, lambda run: run.door_wait_s["p90"]),
    ("low hit at [s]", 14, 0, lambda run: run.first_low_hit_s),
)
_ACTION: tuple[Column, ...] = (
    ("starved", 7, 4, lambda run: run.starved_fraction),
    ("starved max", 11, 4, lambda run: run.starved_fraction_worst),
    ("policy share", 12, 3, lambda run: run.policy_share),
)
_REFRESHES: tuple[Column, ...] = (
    ("refresh/min", 11, 2, lambda run: _per_min(run, run.refreshes)),
    ("lost/min", 8, 2, lambda run: _per_min(run, run.refreshes_lost)),
)
_ALWAYS_NOTE = (
    "lowest: hit rate of the worst 120 s window that began after the warm-up (-: none did).\n"
    "low hit at: end of the first window under 80% (-: none was). Mprompt: prompt tokens computed."
)
_ACTION_NOTE = (
    "starved: share of ticks without an action, of all robots; max: of the worst one.\n"
    "policy share: of the time of robots inside, that in which their policy ran."
)
_REFRESHES_NOTE = "refresh: prefixes touched to keep them. lost: those that were gone already."
#: Not a part of a word, an address or a version.
_NUMBER = re.compile(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w.:-])")


def _per_min(run: ReplayResult, count: int | None) -> float | None:
    return None if count is None or not run.duration_s else 60.0 * count / run.duration_s


def columns_of(results: Sequence[ReplayResult]) -> tuple[Column, ...]:
    """Those that say something of these runs."""
    return (
        *_ALWAYS,
        *(_ACTION if _have_action(results) else ()),
        *(_REFRESHES if _have_refreshes(results) else ()),
    )


def _have_action(results: Sequence[ReplayResult]) -> bool:
    return any(run.starved_fraction is not None for run in results)


def _have_refreshes(results: Sequence[ReplayResult]) -> bool:
    return any(run.refreshes for run in results)


def summary(results: Sequence[ReplayResult]) -> dict[str, Any]:
    """Mean of every column with its 95% interval, as plain values; None: no run has it."""
    means = {}
    for name, _, _, value_of in columns_of(results):
        over = seed_mean([value_of(result) for result in results])
        means[name] = None if over is None else asdict(over)
    return means


def show(results: Sequence[ReplayResult], heading: str, more: Sequence[str] = ()) -> None:
    """Print the table: a line for each run, what they have in common, and then `more` lines."""
    columns = columns_of(results)
    print(heading)
    print("seed    " + " ".join(f"{name:>{width}}" for name, width, _, _ in columns))
    for result in results:
        mark = "*" if result.is_partial else ""
        values = [_shown(value_of(result), width, digits) for _, width, digits, value_of in columns]
        print(f"{result.seed:<7}{mark:1}" + " ".join(values))
    if len(results) > 1:
        for label, pick in (("mean", _mean), ("+-95%", _half)):
            cells = []
            for _, width, digits, value_of in columns:
                over = seed_mean([value_of(result) for result in results])
                cells.append(_shown(None if over is None else pick(over), width, digits))
            print(f"{label:8}" + " ".join(cells))
    print(_ALWAYS_NOTE)
    if _have_action(results):
        print(_ACTION_NOTE)
    if _have_refreshes(results):
        print(_REFRESHES_NOTE)
    for line in (*warning_lines(results), *more):
        print(line)


def _mean(over: SeedMean) -> float | None:
    return over.mean


def _half(over: SeedMean) -> float | None:
    return None if over.high is None else over.high - over.mean


def _shown(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def warning_lines(results: Sequence[ReplayResult]) -> list[str]:
    """Each warning once, with the seeds that it is of if there are several runs.

    Texts that differ by numbers alone are one warning: "613 to 840" stands where they differ.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for result in results:
        for text in result.warnings:
            found.setdefault(_NUMBER.sub("#", text), []).append((result.seed, text))
    lines = []
    for told in found.values():
        seeds = format_indices([seed for seed, _ in told])
        several = "seeds" if len(told) > 1 else "seed"
        where = f" ({several} {seeds})" if len(results) > 1 else ""
        lines.append(f"warning{where}: {_merged([text for _, text in told])}")
    return lines


def _merged(texts: Sequence[str]) -> str:
    """Texts that differ by numbers alone as one, with the range of each number."""
    places = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ranges = []
    for numbers in places:
        low, high = min(numbers, key=float), max(numbers, key=float)
        ranges.append(low if low == high else f"{low} to {high}")
    following = iter(ranges)
    return _NUMBER.sub(lambda _: next(following), texts[0])
