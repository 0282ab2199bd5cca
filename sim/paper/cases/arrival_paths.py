"""The same 22 robots, reached in three ways: all at once, slowly from below, slowly from above."""

from __future__ import annotations

from collections.abc import Sequence

from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import FleetPoint, ReplaySettings
from sim.paper.case import Case, Picture, Workplace
from sim.paper.replay_rows import (
    BRAIN,
    QUICK_S,
    SUSTAINED_S,
    FleetRun,
    Quantity,
    engine,
    jobs_of,
    run_all,
    say_rows,
    settings_json,
    study_value,
    variant_of,
)
from sim.paper.rows import SEEDS, seed_row
from sim.paper.windows_plot import INSIDE_PANELS, STUDY_PANELS, draw_windows

PATH = f"{BRAIN}/sustained_replay/N22_arrival_paths_rps"
ROBOTS = 22
FROM_BELOW = 2
FROM_ABOVE = (24, 28)
RAMP_S = 600.0
NUM_SEEDS = 4


def run(workplace: Workplace) -> None:
    """Leaves arrival-paths.json and a picture."""
    runs = fleet_runs(workplace)
    results = run_all(workplace, runs, "arrival paths")
    ramp_s = RAMP_S if not workplace.quick else QUICK_S / 3
    rows = []
    for run, found in zip(runs, results, strict=True):
        name = run.row.partition("_")[2].partition("_from")[0]
        theirs = study_value(f"{PATH}/{name}")
        for quantity, judged in (("rps", False), ("rps_after_ramp", True)):
            values = [
                result.rps if quantity == "rps" else rps_after(result, ramp_s) for result in found
            ]
            rows.append(
                seed_row(
                    run.row,
                    quantity,
                    "1/s",
                    theirs,
                    values,
                    variant=run.variant,
                    within=SEEDS if judged and run.may_be_judged else None,
                )
            )
        rows += run.rows(found, (Quantity("hit", "share", lambda result: result.hit),))
    workplace.write_case(
        "arrival-paths",
        rows,
        settings=settings_json(runs),
        pictures=[_draw(workplace, runs, results, ramp_s)],
        notes=[
            "The study does not say how long its ramps are, nor from how many robots it came down "
            f"or up, nor whether the ramp counts. Ours: {FROM_BELOW} to {ROBOTS}, and from "
            f"{FROM_ABOVE[0]} and {FROM_ABOVE[1]} down to it, one robot at a time, in "
            f"{RAMP_S / 60:.0f} of 30 minutes.",
        ],
    )
    say_rows(workplace, rows)


def ramp(first: int, last: int, ramp_s: float) -> tuple[FleetPoint, ...]:
    """One robot after the other, evenly over `ramp_s`."""
    step = 1 if last >= first else -1
    sizes = range(first, last + step, step)
    return tuple(
        FleetPoint(ramp_s * index / max(len(sizes) - 1, 1), size)
        for index, size in enumerate(sizes)
    )


def rps_after(result: ReplayResult, time_s: float) -> float:
    """Turns per second in the windows that begin at `time_s` or later."""
    windows = [window for window in result.windows if window.start_s >= time_s]
    span_s = sum(window.end_s - window.start_s for window in windows)
    return sum(window.turns for window in windows) / span_s if span_s else 0.0


def fleet_runs(workplace: Workplace) -> list[FleetRun]:
    """One for each path; from above there are two."""
    main = workplace.engine_versions[0]
    duration_s = QUICK_S if workplace.quick else SUSTAINED_S
    ramp_s = QUICK_S / 3 if workplace.quick else RAMP_S
    paths = {
        "cold": (FleetPoint(0.0, ROBOTS),),
        "ramp_up": ramp(FROM_BELOW, ROBOTS, ramp_s),
        **{f"ramp_down_from_{first}": ramp(first, ROBOTS, ramp_s) for first in FROM_ABOVE},
    }
    if workplace.quick:
        del paths["ramp_up"], paths[f"ramp_down_from_{FROM_ABOVE[0]}"]
    seeds = workplace.seeds(NUM_SEEDS, 1)
    return [
        FleetRun(
            f"N{ROBOTS}_{name}",
            PATH,
            jobs_of(ReplaySettings(fleet, engine=engine(main), duration_s=duration_s), seeds),
            False,
            variant_of(main),
        )
        for name, fleet in paths.items()
    ]


def _draw(
    workplace: Workplace,
    runs: Sequence[FleetRun],
    results: Sequence[Sequence[ReplayResult]],
    ramp_s: float,
) -> Picture:
    path = workplace.folder / "arrival-paths.png"
    draw_windows(
        {run.row: found for run, found in zip(runs, results, strict=True)},
        path,
        STUDY_PANELS + INSIDE_PANELS[:1],
        title=f"{ROBOTS} robots by how they arrived, one line per seed",
        marks={"end of the ramps": ramp_s},
    )
    workplace.say(f"wrote {path}")
    return Picture(path.name, f"{ROBOTS} robots reached at once, from below and from above")


CASE = Case(
    "22 robots reached cold, ramping up and ramping down",
    1.8,
    run,
    quick_minutes=0.1,
    uses_study_engine=True,
)
