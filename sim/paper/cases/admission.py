"""Who lets episodes in: ours against the best static cap that a sweep finds, and against others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robot_sdk.errors import RobotSdkError
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job
from sim.fleet.statistics import seed_mean
from sim.paper import admission_words
from sim.paper.admission_cells import (
    DURATION_S,
    FAIR_EPISODES,
    FEW_SEEDS,
    NUM_ROBOTS,
    OURS,
    OURS_COOLING,
    OURS_MISLED,
    Cell,
    Mix,
    cells,
    fair_jobs,
    quick_cells,
)
from sim.paper.admission_sweep import Sweep, lowest_hit, mean_of
from sim.paper.admission_words import Fair
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.replay_rows import HEALTHY_HIT
from sim.paper.rows import Row, seed_row

QUANTITIES = (("rps", "1/s"), ("episodes_per_min", "1/min"))
LEAST_JAIN = 0.95
#: How near the same policy comes in a fleet of another size.
SAME_WITHIN = 0.01
#: The sweep's caps lie around the best one if none of the outer ones, which have fewer seeds, has
#: more than chance over it.
OUTER_CAP_LIMIT = 1.01
_FAIR_SEED = 0
#: From so many seeds on it is the full sweep: all caps, all policies, and how even it is.
_FULL_SEEDS = 2

_NOTE_BEST = (
    "The study has no such table. The best static cap is the one with most requests/s (of "
    "episodes/min: most of those){}, known only after the sweep."
)
_NOTE_WAIT = (
    "P99 wait: of episodes that came in; those that still wait at the end of a run are not in it."
)
_NOTE_CHANCE = "Two runs of one cell that differ in nothing but the seed are 1 to 2% apart."
_NOTE_TWO_THINGS = (
    "Ours is two things, admission and refreshes of prefixes, and static caps have neither."
)
_NOTE_APART = " {} tell them apart."
_NOTE_SEEDS = (
    "Caps near the best and ours have all seeds. Caps further out, the other policies and ours "
    f"without refresh have {FEW_SEEDS}: the column `seeds` says so."
)
_NOTE_FLEETS = (
    f"One fleet of {NUM_ROBOTS} robots stands for smaller and larger ones: the door is first in, "
    "first out, so as long as somebody waits the brain's load is the same. Rows `rps_of_N48` check "
    "that. Waits and evenness are not the same, and have rows of their own."
)


def run(workplace: Workplace) -> None:
    """Leaves admission.json, admission.md and a picture; of an interrupted sweep what it has."""
    seeds = workplace.seeds(1, 1)
    is_full = len(seeds) >= _FULL_SEEDS and not workplace.quick
    sweep = Sweep(quick_cells(seeds) if workplace.quick else cells(seeds, is_full=is_full))
    fair: Fair = {}
    planned = plan(sweep.cells, fair_jobs(_FAIR_SEED) if is_full else {})

    def keep(place: int, result: ReplayResult) -> None:
        of, job = planned[place]
        if isinstance(of, Cell):
            sweep.add(of, job.seed, result)
        elif not result.is_partial:
            fair[of] = result

    settings = {
        "cells": [
            {"row": cell.row, "policy": cell.policy, "seeds": list(cell.seeds)}
            for cell in sweep.cells
        ],
        "duration_s": sweep.cells[0].duration_s,
        "settings": planned[0][1].settings.to_json(),
    }
    try:
        workplace.replays([job for _, job in planned], "admission", on_result=keep)
    except (KeyboardInterrupt, RobotSdkError):
        if not workplace.has_complete("admission"):
            rows, pictures = _leave(workplace, sweep, fair, "Partial: the sweep was broken off.")
            workplace.keep_draft(rows, settings=settings, pictures=pictures, notes=notes(sweep))
        raise
    rows, pictures = _leave(workplace, sweep, fair, "")
    workplace.write_case(
        "admission", rows, settings=settings, pictures=pictures, notes=notes(sweep)
    )


def notes(sweep: Sweep) -> list[str]:
    """What a reader must know of the cells that are there, and of no others."""
    there = [cell for cell in sweep.cells if sweep.runs(cell)]
    num_seeds = {len(cell.seeds) for cell in there if not cell.is_check}
    best = _NOTE_BEST.format(" over all seeds of its mix" if num_seeds - {1} else "")
    if num_seeds - {1}:
        best += " Shares of it are over the seeds that both have."
    found = [best, _NOTE_WAIT]
    duration_s = sweep.cells[0].duration_s
    if duration_s < DURATION_S:
        found.append(
            f"Runs of {duration_s / 60:.0f} virtual minutes show how the comparison is made; no "
            f"goal is judged by them. Those that are take {DURATION_S / 60:.0f}."
        )
    apart = [
        (any(cell.policy == OURS_COOLING for cell in there), "`no refresh`"),
        (any(cell.policy.endswith(", refreshed") for cell in there), "`refreshed` caps"),
    ]
    tell_apart = " and ".join(words for is_there, words in apart if is_there)
    found.append(_NOTE_TWO_THINGS + (_NOTE_APART.format(tell_apart) if tell_apart else ""))
    found.append(f"{_NOTE_SEEDS} {_NOTE_CHANCE}" if len(num_seeds) > 1 else _NOTE_CHANCE)
    if any(cell.is_check for cell in there):
        found.append(_NOTE_FLEETS)
    return found


def plan(
    cells: Sequence[Cell], fair: dict[tuple[str, int], Job]
) -> list[tuple[Cell | tuple[str, int], Job]]:
    """All runs, and what each is for, in such an order that a sweep that is broken off has said
    something: the first seeds of every cell, the long runs, all other seeds.
    """
    runs = [(cell, job) for cell in cells for job in cell.jobs]
    early = [(cell, job) for cell, job in runs if job.seed < FEW_SEEDS]
    late = [(cell, job) for cell, job in runs if job.seed >= FEW_SEEDS]
    return [*early, *fair.items(), *sorted(late, key=lambda one: one[1].seed)]


def _leave(
    workplace: Workplace, sweep: Sweep, fair: Fair, warning: str
) -> tuple[list[Row], list[Picture]]:
    """Leave table and picture of what there is."""
    rows = all_rows(sweep, fair)
    text = [f"# Admission: {OURS} against static caps and others", ""]
    text += [f"**{warning}**", ""] if warning else []
    text += [
        f"Made with `{workplace.command('admission')}`: pool of 4,270 blocks, "
        f"{sweep.cells[0].duration_s / 60:.0f} virtual minutes a run.",
        "",
        *(line for note in notes(sweep) for line in (note, "")),
    ]
    for title, lines in (
        ("Goals", admission_words.goals(rows)),
        ("Policies", admission_words.policies(sweep)),
        ("Other fleets", admission_words.fleets(sweep)),
        ("The sweep itself", admission_words.checks(rows)),
        ("How even", admission_words.evenness(fair)),
    ):
        if lines:
            text += [f"## {title}", "", *lines, ""]
    path = workplace.folder / "admission.md"
    path.write_text("\n".join(text), encoding="utf-8")
    workplace.say(f"wrote {path}")
    for line in text:
        workplace.say(line)
    return rows, _draw(workplace, sweep)


def all_rows(sweep: Sweep, fair: Fair) -> list[Row]:
    """Judged rows first: those that were set as a goal."""
    rows: list[Row] = []
    for mix in dict.fromkeys(cell.mix for cell in sweep.cells):
        for robots in (NUM_ROBOTS, *mix.full_robots):
            rows += _share_rows(sweep, mix, robots)
            if robots == NUM_ROBOTS:
                rows += _outer_rows(sweep, mix)
    for (mix_name, robots), result in fair.items():
        rows += _fair_rows(mix_name, robots, result)
    for cell in sweep.cells:
        if cell.is_check:
            rows += _check_rows(sweep, cell)
    for cell in sweep.cells:
        if not cell.is_check and sweep.runs(cell):
            rows += _rows(cell, list(sweep.runs(cell).values()))
    return rows


def _rows(cell: Cell, results: Sequence[ReplayResult]) -> list[Row]:
    values: list[tuple[str, str, list[float | None]]] = [
        ("rps", "1/s", [result.rps for result in results]),
        ("episodes_per_min", "1/min", [result.episodes_per_min for result in results]),
        ("hit_after_warm_up", "share", [result.hit_after_warm_up for result in results]),
        ("jain", "index", [result.jain for result in results]),
        ("door_wait_p99", "s", [result.door_wait_s.get("p99") for result in results]),
    ]
    return [
        seed_row(cell.row, quantity, unit, None, per_seed, variant=cell.policy)
        for quantity, unit, per_seed in values
    ]


def _share_rows(sweep: Sweep, mix: Mix, robots: int) -> list[Row]:
    """Ours over the best cap, and its worst run; judged by what was set as the goal."""
    rows = []
    for policy in (OURS, OURS_MISLED, OURS_COOLING):
        cell = sweep.cell(mix, policy, robots)
        if cell is None:
            continue
        is_judged = policy != OURS_COOLING and cell.duration_s >= DURATION_S
        for quantity, _ in QUANTITIES:
            best = sweep.best_cap(mix, robots, quantity)
            share = None if best is None else sweep.share(cell, best, quantity)
            if best is None or share is None:
                continue
            by_seed = sweep.share_by_seed(cell, best, quantity)
            over = seed_mean(by_seed)
            spread = ""
            if over is not None and over.low is not None and over.high is not None:
                spread = f"; 95% interval of the seeds' shares {over.low:.3f} to {over.high:.3f}"
            rows.append(
                Row(
                    cell.row,
                    f"{quantity}_of_best_cap",
                    "",
                    (mix.needed_share, None) if is_judged else None,
                    share[0],
                    by_seed,
                    note=f"the best is {best.policy}; seeds in common: {share[1]}{spread}",
                    variant=policy,
                    within=0.0 if is_judged else None,
                    is_goal=is_judged,
                )
            )
        rows.append(
            Row(
                cell.row,
                "lowest_hit_of_a_run",
                "share",
                (HEALTHY_HIT, None) if is_judged else None,
                lowest_hit(sweep.runs(cell).values()),
                note="after the warm-up",
                variant=policy,
                within=0.0 if is_judged else None,
                is_goal=is_judged,
            )
        )
    return rows


def _outer_rows(sweep: Sweep, mix: Mix) -> list[Row]:
    """Whether the best cap lies inside those that were swept with all seeds."""
    best = sweep.best_cap(mix)
    shares = [
        (share[0], cell.policy, share[1])
        for cell in sweep.caps(mix, NUM_ROBOTS)
        if best is not None
        and len(sweep.runs(cell)) < len(sweep.runs(best))
        and (share := sweep.share(cell, best, "rps")) is not None
    ]
    if best is None or not shares:
        return []
    highest, policy, seeds = max(shares)
    return [
        Row(
            best.row,
            "best_outer_cap_of_best_cap",
            "",
            (None, OUTER_CAP_LIMIT),
            highest,
            note=f"requests/s of {policy} over {best.policy}; seeds in common: {seeds}",
            variant="static caps with few seeds",
            within=0.0,
            is_goal=True,
        )
    ]


def _check_rows(sweep: Sweep, cell: Cell) -> list[Row]:
    """The same policy and seed in a fleet of another size."""
    large = sweep.cell(cell.mix, cell.policy)
    share = None if large is None else sweep.share(cell, large, "rps")
    if share is None:
        return []
    return [
        Row(
            cell.row,
            f"rps_of_N{NUM_ROBOTS}",
            "",
            (1.0 - SAME_WITHIN, 1.0 + SAME_WITHIN),
            share[0],
            note="the same seed in both fleets",
            variant=cell.policy,
            within=0.0,
            is_goal=True,
        )
    ]


def _fair_rows(mix: str, robots: int, result: ReplayResult) -> list[Row]:
    name = f"{mix}_N{robots}"
    variant = f"{OURS}, even"
    note = f"{result.duration_s / 60:.0f} virtual minutes"
    is_long_enough = result.fewest_episodes >= FAIR_EPISODES
    judged: dict[str, Any] = {
        "note": note,
        "variant": variant,
        "within": 0.0,
        "is_goal": True,
    }
    return [
        Row(
            name,
            "jain",
            "index",
            (LEAST_JAIN, None),
            result.jain,
            **{**judged, "within": 0.0 if is_long_enough else None},
        ),
        Row(
            name,
            "hit_after_warm_up",
            "share",
            (HEALTHY_HIT, None),
            result.hit_after_warm_up,
            **judged,
        ),
        Row(
            name,
            "fewest_episodes",
            "",
            None,
            result.fewest_episodes,
            note=f"of a robot; {FAIR_EPISODES} or more make Jain's index mean something",
            variant=variant,
        ),
        Row(name, "door_wait_p99", "s", None, result.door_wait_s.get("p99"), variant=variant),
    ]


_LINES = ((OURS, "C1", "-"), (OURS_MISLED, "C3", "--"), (OURS_COOLING, "C2", ":"))


def _draw(workplace: Workplace, sweep: Sweep) -> list[Picture]:
    """Requests/s over the cap for each mix with ours as lines: whole, and near the best."""
    drawn = [
        (mix, best)
        for mix in dict.fromkeys(cell.mix for cell in sweep.cells)
        if (best := sweep.best_cap(mix)) is not None
    ]
    if not drawn:
        return []
    plt = pyplot()
    figure, grid = plt.subplots(
        2,
        len(drawn),
        figsize=(3.3 * len(drawn) + 1, 6),
        layout="constrained",
        squeeze=False,
        sharex="col",
        sharey="row",
    )
    for column, (mix, best) in zip(grid.T, drawn, strict=True):
        for axis in column:
            _draw_mix(axis, sweep, mix, best)
        highest = mean_of(sweep.runs(best).values(), "rps")
        column[0].set_title(f"{mix.name}; 100% is {highest:.2f} requests/s", fontsize=9)
        column[0].set_ylim(0, 115)
        column[1].set_ylim(93, 107)
        column[1].axhline(100 * mix.needed_share, color="black", ls="-.", lw=0.9, label="goal")
        column[1].set_xlabel("cap")
        column[1].xaxis.get_major_locator().set_params(integer=True)
    grid[0][0].set_ylabel("requests/s, % of the best cap")
    grid[1][0].set_ylabel("the same, near 100%")
    figure.legend(
        *grid[1][0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=5 if len(drawn) > 1 else 1,
    )
    path = Path(workplace.folder) / "admission.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")
    return [Picture(path.name, "requests/s over the cap, and ours, which is told none")]


def _draw_mix(axis: Any, sweep: Sweep, mix: Mix, best: Cell) -> None:
    """All in percent of the best cap over the seeds in common, since not all have the same."""
    whole = sweep.runs(best)
    points: list[tuple[int, float]] = []
    for cell in sweep.caps(mix, NUM_ROBOTS):
        cap = cell.admission.settings["cap"]
        for seed, run in sweep.runs(cell).items():
            if seed in whole:
                axis.plot([cap], [100 * run.rps / whole[seed].rps], ".", color="C0", alpha=0.4)
        share = sweep.share(cell, best, "rps")
        if share is not None:
            points.append((cap, 100 * share[0]))
    axis.plot(*zip(*sorted(points), strict=True), "-", color="C0", label="static cap; dots: seeds")
    for policy, color, style in _LINES:
        cell_of = sweep.cell(mix, policy)
        share = None if cell_of is None else sweep.share(cell_of, best, "rps")
        if share is not None:
            axis.axhline(100 * share[0], color=color, ls=style, label=policy)
    axis.grid(alpha=0.3)


CASE = Case(
    "admission: ours against the best static cap of a sweep and against other policies",
    3.4,
    run,
    quick_minutes=0.4,
)
