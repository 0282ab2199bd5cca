"""An overload that is taken away: how long until prefixes survive again."""

from __future__ import annotations

from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import FleetPoint, ReplaySettings
from sim.paper.case import Case, Picture, Workplace
from sim.paper.replay_rows import (
    HEALTHY_HIT,
    QUICK_S,
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

OVERLOAD = 32
WITHDRAWN_S = 900.0
#: Robots that stay.
LEFT = (16, 20)
NUM_SEEDS = 4
#: "In one of two runs after about 6 minutes."
STUDY_MINUTES = 6.0
#: Nobody who looks at 120 s windows can tell less apart.
ONE_WINDOW = 2.0 / STUDY_MINUTES


def run(workplace: Workplace) -> None:
    """Leaves recovery.json and a picture."""
    runs = fleet_runs(workplace)
    results = run_all(workplace, runs, "recovery")
    withdrawn_s = withdrawal_s(workplace)
    rows: list[Row] = []
    for run, found in zip(runs, results, strict=True):
        minutes = [minutes_to_recover(result, withdrawn_s) for result in found]
        rows += [
            seed_row(
                run.row,
                "minutes_to_recover",
                "min",
                STUDY_MINUTES,
                minutes,
                variant=run.variant,
                within=ONE_WINDOW if run.may_be_judged else None,
                note="the study's two runs had another overload, which it does not describe",
            ),
            Row(
                run.row,
                "recovered_share",
                "share",
                1.0,
                sum(value is not None for value in minutes) / len(minutes),
                variant=run.variant,
                within=0.0 if run.may_be_judged else None,
            ),
        ]
    workplace.write_case(
        "recovery",
        rows,
        settings=settings_json(runs),
        pictures=[
            _draw(
                workplace,
                {
                    f"{run.row}, {run.variant}": found
                    for run, found in zip(runs, results, strict=True)
                },
                withdrawn_s,
            )
        ],
        notes=[
            "Robots that are too many leave after their turn. Where they run their episodes to "
            "the end instead, the overload goes on for as long as those take, thrashing. Counted "
            "from the withdrawal to the end of the first whole 120 s window with "
            f"{HEALTHY_HIT:.0%} hits.",
        ],
    )
    say_rows(workplace, rows)


def withdrawal_s(workplace: Workplace) -> float:
    """When the overload is taken away."""
    return QUICK_S if workplace.quick else WITHDRAWN_S


def fleet_runs(workplace: Workplace) -> list[FleetRun]:
    """An overload, and two numbers of robots that stay."""
    if workplace.quick:
        return [_fleet(workplace, LEFT[0], cuts_off=True)]
    return [
        *(_fleet(workplace, left, cuts_off=True) for left in LEFT),
        _fleet(workplace, LEFT[0], cuts_off=False),
    ]


def _fleet(workplace: Workplace, left: int, cuts_off: bool) -> FleetRun:
    main = workplace.engine_versions[0]
    at_s = withdrawal_s(workplace)
    settings = ReplaySettings(
        (FleetPoint(0.0, OVERLOAD), FleetPoint(at_s, left, cuts_off)),
        engine=engine(main),
        duration_s=at_s + (QUICK_S if workplace.quick else SUSTAINED_S),
    )
    return FleetRun(
        f"N{OVERLOAD}_to_N{left}",
        "",
        jobs_of(settings, workplace.seeds(NUM_SEEDS, 1)),
        False,
        variant_of(main, "" if cuts_off else "episodes run to their end"),
        is_judged=cuts_off,
    )


def minutes_to_recover(result: ReplayResult, withdrawn_s: float) -> float | None:
    """See the case's notes. 0 if hits were not low then; None: they did not come back."""
    before = [w.hit for w in result.windows if w.end_s <= withdrawn_s and w.hit is not None]
    if not before or before[-1] >= HEALTHY_HIT:
        return 0.0
    for window in result.windows:
        is_whole_window_after = window.start_s >= withdrawn_s - 1e-6
        if is_whole_window_after and window.hit is not None and window.hit >= HEALTHY_HIT:
            return (window.end_s - withdrawn_s) / 60
    return None


def _draw(
    workplace: Workplace, groups: dict[str, list[ReplayResult]], withdrawn_s: float
) -> Picture:
    path = workplace.folder / "recovery.png"
    draw_windows(
        groups,
        path,
        STUDY_PANELS + INSIDE_PANELS[:1],
        title=f"{OVERLOAD} robots, then fewer; one line per seed",
        marks={"withdrawal": withdrawn_s},
    )
    workplace.say(f"wrote {path}")
    return Picture(path.name, "hit rate after an overload is taken away")


CASE = Case(
    "an overload that is taken away: time until hits are back",
    1.9,
    run,
    quick_minutes=0.1,
    uses_study_engine=True,
)
