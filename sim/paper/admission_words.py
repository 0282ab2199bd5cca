"""The admission sweep as Markdown: goals, policies, fleets, evenness; each empty without a row."""

from __future__ import annotations

from collections.abc import Sequence

from sim.fleet.replay.result import ReplayResult
from sim.paper.admission_cells import FAIR_EPISODES, NUM_ROBOTS, OURS, Cell
from sim.paper.admission_sweep import Sweep, lowest_hit, mean_of, mean_wait_s
from sim.paper.report import words
from sim.paper.rows import Row

Fair = dict[tuple[str, int], ReplayResult]

#: A table's names, and the line under them.
_NUM_HEAD_LINES = 2
#: Of rows that say something of the sweep itself.
CHECKS = ("best_outer_cap_of_best_cap", f"rps_of_N{NUM_ROBOTS}")


def goals(rows: Sequence[Row]) -> list[str]:
    """What was asked for, what came out, met or not."""
    return _judged(rows, "goals met", is_check=False)


def checks(rows: Sequence[Row]) -> list[str]:
    """Whether the caps that were swept hold the best, and one fleet stands for others."""
    return _judged(rows, "checks hold", is_check=True)


def _judged(rows: Sequence[Row], what: str, is_check: bool) -> list[str]:
    judged = [
        row
        for row in rows
        if row.verdict in ("inside", "outside") and (row.quantity in CHECKS) == is_check
    ]
    if not judged:
        return []
    met = sum(row.verdict == "inside" for row in judged)
    lines = [
        f"{met} of {len(judged)} {what}.",
        "",
        "| mix and robots | who lets in | quantity | wanted | reached | met | over |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.row} | {row.variant} | {row.quantity.replace('_', ' ')} | {words.study(row.study)}"
        f" | {words.number(row.ours)} | {'met' if row.verdict == 'inside' else '**not met**'}"
        f" | {row.note} |"
        for row in judged
    ]
    return lines


def policies(sweep: Sweep) -> list[str]:
    """Requests/s and all else of every policy; the best cap of a mix is marked."""
    lines = [
        "| mix | robots | who lets in | requests/s | of best cap | episodes/min | of best cap "
        "| lowest hit of a run | Jain | P99 wait, s | refreshes/min | lost | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for mix in dict.fromkeys(cell.mix for cell in sweep.cells):
        lines += [
            _policy_line(sweep, cell)
            for cell in sweep.cells
            if cell.mix == mix and sweep.runs(cell) and not cell.is_check
        ]
    return lines if len(lines) > _NUM_HEAD_LINES else []


def _policy_line(sweep: Sweep, cell: Cell) -> str:
    runs = sweep.runs(cell)
    parts = [
        cell.mix.name,
        str(cell.num_robots),
        f"**{cell.policy}**" if cell == sweep.best_cap(cell.mix, cell.num_robots) else cell.policy,
    ]
    for quantity in ("rps", "episodes_per_min"):
        best = sweep.best_cap(cell.mix, cell.num_robots, quantity)
        share = None if best is None else sweep.share(cell, best, quantity)
        parts += [
            f"{mean_of(runs.values(), quantity):.3f}",
            words.NOTHING if share is None else f"{100 * share[0]:.1f}%",
        ]
    wait_s = mean_wait_s(runs.values())
    parts += [
        f"{lowest_hit(runs.values()):.4f}",
        f"{mean_of(runs.values(), 'jain'):.3f}",
        words.NOTHING if wait_s is None else f"{wait_s:.0f}",
        *_refreshes(list(runs.values())),
        str(len(runs)),
    ]
    return f"| {' | '.join(parts)} |"


def _refreshes(runs: Sequence[ReplayResult]) -> tuple[str, str]:
    """Prefixes kept warm in a minute, and the share of them that had been lost."""
    number = sum(run.refreshes or 0 for run in runs)
    if not number:
        return words.NOTHING, words.NOTHING
    minutes = sum(run.duration_s for run in runs) / 60
    lost = sum(run.refreshes_lost or 0 for run in runs)
    return f"{number / minutes:.1f}", f"{100 * lost / number:.2f}%"


def fleets(sweep: Sweep) -> list[str]:
    """The same policy in other fleets."""
    lines = [
        f"| mix | robots | who lets in | requests/s | with {NUM_ROBOTS} robots, same seed |",
        "|---|---|---|---|---|",
    ]
    for cell in sweep.cells:
        large = sweep.cell(cell.mix, cell.policy)
        if not sweep.runs(cell) or not cell.is_check or large is None:
            continue
        for seed, result in sweep.runs(cell).items():
            same = sweep.runs(large).get(seed)
            lines.append(
                f"| {cell.mix.name} | {cell.num_robots} | {cell.policy} | {result.rps:.3f} "
                f"| {words.number(None if same is None else same.rps)} |"
            )
    return lines if len(lines) > _NUM_HEAD_LINES else []


def evenness(fair: Fair) -> list[str]:
    """Ours over times in which each robot does several episodes."""
    lines = [
        f"| mix | robots | who lets in | virtual minutes | fewest episodes of a robot "
        f"(needs {FAIR_EPISODES}) | Jain | P99 wait, s | hit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {mix} | {robots} | {OURS} | {result.duration_s / 60:.0f} | {result.fewest_episodes} "
        f"| {result.jain:.3f} | {words.number(result.door_wait_s.get('p99'))} "
        f"| {words.number(result.hit_after_warm_up)} |"
        for (mix, robots), result in fair.items()
    ]
    return lines if len(lines) > _NUM_HEAD_LINES else []
