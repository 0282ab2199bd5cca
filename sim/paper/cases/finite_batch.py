"""Two episodes each and then home: a batch drains and heals, a fleet that goes on does not."""

from __future__ import annotations

from dataclasses import replace

from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.paper.case import Case, Picture, Workplace
from sim.paper.replay_rows import (
    SUSTAINED_S,
    FleetRun,
    engine,
    jobs_of,
    run_all,
    say_rows,
    settings_json,
    variant_of,
)
from sim.paper.rows import Row, seed_row
from sim.paper.windows_plot import INSIDE_PANELS, STUDY_PANELS, draw_windows

ROBOTS = (24, 28)
EPISODES_EACH = 2
#: Long enough for a batch that thrashes.
LIMIT_S = 7200.0
NUM_SEEDS = 4
#: All complete: 48 of 48 and 56 of 56; at 28 "the hit rate returns to full as the batch drains".
STUDY_COMPLETED = {24: 48, 28: 56}
STUDY_LAST_HIT = {28: 1.0}


def run(workplace: Workplace) -> None:
    """Leaves finite-batch.json and a picture."""
    runs = fleet_runs(workplace)
    results = run_all(workplace, runs, "finite batches")
    rows: list[Row] = []
    groups: dict[str, list[ReplayResult]] = {}
    for run, found in zip(runs, results, strict=True):
        groups[run.row] = found
        robots = int(run.row[1:3])
        if run.row.endswith("sustained"):
            continue
        rows += [
            seed_row(
                run.row,
                "episodes_completed",
                "",
                STUDY_COMPLETED.get(robots),
                [result.episodes_completed for result in found],
                variant=run.variant,
                within=None if workplace.quick else 0.0,
            ),
            seed_row(
                run.row,
                "hit_of_last_window",
                "share",
                STUDY_LAST_HIT.get(robots),
                [last_hit(result) for result in found],
                variant=run.variant,
                within=None if workplace.quick else 0.05,
            ),
            seed_row(
                run.row,
                "hit_of_lowest_window",
                "share",
                None,
                [lowest_hit(result) for result in found],
                variant=run.variant,
            ),
            seed_row(
                run.row,
                "minutes",
                "min",
                None,
                [result.duration_s / 60 for result in found],
                variant=run.variant,
            ),
        ]
    workplace.write_case(
        "finite-batch",
        rows,
        settings=settings_json(runs),
        pictures=[_draw(workplace, groups)],
    )
    say_rows(workplace, rows)


def last_hit(result: ReplayResult) -> float | None:
    """Hit rate of the last whole window that had turns to count; a rest of one says too little."""
    hits = [window.hit for window in result.windows[:-1] if window.hit is not None]
    return hits[-1] if hits else result.hit


def lowest_hit(result: ReplayResult) -> float | None:
    """Of all windows."""
    return min((window.hit for window in result.windows if window.hit is not None), default=None)


def fleet_runs(workplace: Workplace) -> list[FleetRun]:
    """The batches, and the larger fleet when it goes on with the same seeds."""
    main = workplace.engine_versions[0]
    seeds = workplace.seeds(NUM_SEEDS, 1)
    robots = (24,) if workplace.quick else ROBOTS
    runs = []
    for number in robots:
        sustained = ReplaySettings.sustained(number, engine=engine(main), duration_s=SUSTAINED_S)
        batch = replace(sustained, duration_s=LIMIT_S, episodes_per_robot=EPISODES_EACH)
        if workplace.quick:
            batch = replace(batch, episodes_per_robot=1)
        name = f"N{number}_{'two' if not workplace.quick else 'one'}_each"
        runs.append(FleetRun(name, "", jobs_of(batch, seeds), True, variant_of(main)))
        if number == ROBOTS[-1]:
            jobs = jobs_of(sustained, seeds)
            name = f"N{number}_sustained"
            runs.append(FleetRun(name, "", jobs, False, variant_of(main)))
    return runs


def _draw(workplace: Workplace, groups: dict[str, list[ReplayResult]]) -> Picture:
    path = workplace.folder / "finite-batch.png"
    draw_windows(
        groups,
        path,
        STUDY_PANELS + INSIDE_PANELS[:1],
        title="finite batches, and the fleet that goes on; one line per seed",
    )
    workplace.say(f"wrote {path}")
    return Picture(path.name, "hit rate as a batch drains, and in a fleet that goes on")


CASE = Case(
    "two episodes each: the batch drains and its hit rate comes back",
    0.6,
    run,
    quick_minutes=0.1,
    uses_study_engine=True,
)
