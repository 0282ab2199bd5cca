"""A fixed number of episodes inside: what the cap gives back, and how evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.paper import study
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.replay_rows import (
    ALL,
    BRAIN,
    CAPPED_S,
    FITTED_NOTE,
    QUICK_S,
    SUSTAINED_S,
    FleetRun,
    capped,
    engine,
    jobs_of,
    run_all,
    say_rows,
    settings_json,
    study_value,
    variant_of,
)

PATH = f"{BRAIN}/static_cap"
#: Robots and cap.
CELLS = ((48, 12), (48, 16), (48, 20), (48, 24), (32, 16))
#: At this cap the study's hit rate has begun to fall, and chance decides how far.
UNSTABLE = ((48, 24),)
SEEDS_STABLE, SEEDS_UNSTABLE, SEEDS_OTHER = 4, 10, 2
#: See sim.paper.replay_rows.
OTHER_POOL = 4270
UNLIMITED = "N32"
#: The study's figure 10.
FIGURE_10 = (UNLIMITED, "N32_K16", "N48_K20")


def run(workplace: Workplace) -> None:
    """Leaves static-cap.json and two pictures."""
    runs = fleet_runs(workplace)
    results = run_all(workplace, runs, "static caps")
    rows = [
        row
        for run, found in zip(runs, results, strict=True)
        if run.row != UNLIMITED
        for row in run.rows(found, ALL)
    ]
    main = variant_of(workplace.engine_versions[0])
    by_row = {
        run.row: found for run, found in zip(runs, results, strict=True) if run.variant == main
    }
    workplace.write_case(
        "static-cap",
        rows,
        settings=settings_json(runs),
        pictures=[_draw_caps(workplace, by_row), _draw_figure_10(workplace, by_row)],
        notes=[
            "The study's runs with a cap lasted 20 minutes, which its episodes over its episodes "
            "per minute say; so do ours. Jain's index of so few episodes a robot depends on it.",
            FITTED_NOTE,
        ],
    )
    say_rows(workplace, rows)


def fleet_runs(workplace: Workplace) -> list[FleetRun]:
    """All cells, the ones to be judged first; and the fleet without a cap of figure 10."""
    main, *others = workplace.engine_versions
    if workplace.quick:
        runs = [_cell(workplace, *cell, main, is_judged=True) for cell in ((48, 20), (32, 16))]
    else:
        runs = [_cell(workplace, *cell, main, is_judged=True) for cell in CELLS]
        runs += [
            _cell(workplace, *cell, main, words="pool of 4,270", pool_blocks=OTHER_POOL)
            for cell in UNSTABLE
        ]
        runs += [_cell(workplace, *cell, other) for other in others for cell in CELLS]
    # As in the case "sustained", so that the same runs serve both.
    unlimited = ReplaySettings.sustained(
        32, engine=engine(main), duration_s=QUICK_S if workplace.quick else SUSTAINED_S
    )
    jobs = jobs_of(unlimited, workplace.seeds(SEEDS_STABLE, 1))
    path = f"{BRAIN}/sustained_replay/{UNLIMITED}"
    return [*runs, FleetRun(UNLIMITED, path, jobs, False, variant_of(main), is_judged=False)]


def _cell(
    workplace: Workplace,
    robots: int,
    cap: int,
    version: Any,
    is_judged: bool = False,
    words: str = "",
    **changes: Any,
) -> FleetRun:
    name = f"N{robots}_K{cap}"
    is_stable = (robots, cap) not in UNSTABLE
    settings = ReplaySettings.sustained(
        robots,
        admission=capped(cap),
        engine=engine(version, **changes),
        duration_s=QUICK_S if workplace.quick else CAPPED_S,
    )
    usual = SEEDS_STABLE if is_stable else SEEDS_UNSTABLE
    if version != workplace.engine_versions[0]:
        usual = SEEDS_OTHER
    elif changes:
        usual = SEEDS_STABLE
    jobs = jobs_of(settings, workplace.seeds(usual, 1))
    path = f"{PATH}/{name}"
    return FleetRun(name, path, jobs, is_stable, variant_of(version, words), is_judged)


def _draw_caps(workplace: Workplace, by_row: dict[str, list[ReplayResult]]) -> Picture:
    """Requests/s and hits over the cap, at 48 robots."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for axis, quantity in zip(axes, ("rps", "hit"), strict=True):
        ours_label, study_label = "ours, one dot per seed", "study"
        for robots, cap in CELLS:
            name = f"N{robots}_K{cap}"
            if robots != 48 or name not in by_row:
                continue
            values = [getattr(result, quantity) for result in by_row[name]]
            axis.plot([cap] * len(values), values, ".", color="C0", alpha=0.6, label=ours_label)
            theirs = study.numbers(f"{PATH}/{name}/{quantity}")
            axis.plot([cap] * len(theirs), theirs, "x", color="black", label=study_label)
            ours_label = study_label = "_nolegend_"
        axis.set_xlabel("cap at 48 robots")
        axis.set_ylabel("requests/s" if quantity == "rps" else "full-prefix hit")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    path = workplace.folder / "static-cap.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")
    return Picture(path.name, "requests/s and hits over the cap, 48 robots")


def _draw_figure_10(workplace: Workplace, by_row: dict[str, list[ReplayResult]]) -> Picture:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    names = [name for name in FIGURE_10 if name in by_row]
    for axis, quantity in zip(axes, ("episodes_per_min", "jain"), strict=True):
        for place, name in enumerate(names):
            values = [getattr(result, quantity) for result in by_row[name]]
            theirs = _study_numbers(name, quantity)
            axis.bar(place - 0.2, sum(theirs) / len(theirs), 0.38, color="grey")
            axis.bar(place + 0.2, sum(values) / len(values), 0.38, color="C0")
            axis.plot([place - 0.2] * len(theirs), theirs, "kx")
            axis.plot([place + 0.2] * len(values), values, "k.")
        axis.set_xticks(range(len(names)), [_words(name) for name in names])
        axis.set_ylabel("episodes/min" if quantity == "episodes_per_min" else "Jain's index")
        axis.set_title("grey: study, blue: ours", fontsize=9)
        axis.grid(alpha=0.3, axis="y")
    path = workplace.folder / "static-cap-fairness.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")
    return Picture(path.name, "episodes per minute and Jain's index", 10)


def _study_numbers(name: str, quantity: str) -> Sequence[float]:
    outer = f"{BRAIN}/sustained_replay" if name == UNLIMITED else PATH
    path = f"{outer}/{name}/{quantity}"
    assert study_value(path) is not None, path
    return study.numbers(path)


def _words(name: str) -> str:
    robots, _, cap = name.partition("_K")
    return f"{robots[1:]} robots, " + (f"cap {cap}" if cap else "no cap")


CASE = Case(
    "static caps: throughput, hits, episodes and how evenly they are shared",
    3,
    run,
    quick_minutes=0.1,
    uses_study_engine=True,
)
