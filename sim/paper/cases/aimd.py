"""The study's AIMD controller, and why it never lowers its cap: its usage signal stays low."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from server.core.admission.aimd import AimdSettings
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import AdmissionChoice, ReplaySettings
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.replay_rows import (
    BRAIN,
    CAPPED_S,
    FITTED_NOTE,
    HIT,
    QUICK_S,
    RPS,
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
from sim.paper.rows import Row

PATH = f"{BRAIN}/aimd"
ROBOTS = (32, 48)
SEEDS_MAIN, SEEDS_LOW_START, SEEDS_OTHER = 10, 4, 2
#: The study does not say where its cap started; AimdSettings starts at 16.
LOW_START = 8
#: Two runs of 20 minutes with a control every 30 s are the study's 80 records.
INTERVAL_S = 30.0

HIGHEST_CAP = Quantity(
    "cap_reached", "", lambda run: max((window.cap or 0 for window in run.windows), default=0)
)
DECREASES = Quantity("multiplicative_decreases", "", lambda run: run.controls.get("lower", 0))
CONTROLS = Quantity(
    "control_records",
    "",
    lambda run: sum(run.controls.get(action, 0) for action in ("raise", "hold", "lower")),
)
HIGHEST_USAGE = Quantity(
    "kv_cache_usage_highest_window",
    "share",
    lambda run: max(window.kv_cache_usage for window in run.windows),
)


def run(workplace: Workplace) -> None:
    """Leaves aimd.json and a picture."""
    runs = fleet_runs(workplace)
    results = run_all(workplace, runs, "AIMD")
    rows: list[Row] = []
    by_row = {
        run.row: found
        for run, found in zip(runs, results, strict=True)
        if run.variant == variant_of(workplace.engine_versions[0])
    }
    for run, found in zip(runs, results, strict=True):
        rows += run.rows(found, (RPS, HIT))
        rows += [_of_both_fleets(row) for row in run.rows(found, (HIGHEST_CAP, DECREASES))]
        rows += run.rows(found, (CONTROLS, HIGHEST_USAGE))
    workplace.write_case(
        "aimd",
        rows,
        settings=settings_json(runs),
        pictures=[_draw(workplace, by_row)],
        notes=[
            "The study gives the rule and its interval of 30 s; the initial cap (16), the step "
            "(+1) and the thresholds (0.8) are ours. A lower start collapses later, so the mean "
            "over the run is higher. Its runs: 80 records in all, so 20 minutes each.",
            FITTED_NOTE,
        ],
    )
    say_rows(workplace, rows)


def fleet_runs(workplace: Workplace) -> list[FleetRun]:
    """Both fleets, the ones to be judged first."""
    main, *others = workplace.engine_versions
    if workplace.quick:
        return [_fleet(workplace, 48, main, {}, SEEDS_MAIN, variant_of(main), is_judged=True)]
    start = {"initial_cap": LOW_START}
    runs = [
        _fleet(workplace, robots, main, settings, num_seeds, variant, is_judged=not settings)
        for settings, num_seeds, variant in (
            ({}, SEEDS_MAIN, variant_of(main)),
            (start, SEEDS_LOW_START, variant_of(main, f"initial cap {LOW_START}")),
        )
        for robots in ROBOTS
    ]
    for other in others:
        runs += [_fleet(workplace, n, other, {}, SEEDS_OTHER, variant_of(other)) for n in ROBOTS]
    return runs


def _fleet(
    workplace: Workplace,
    robots: int,
    version: Any,
    settings: dict[str, Any],
    num_seeds: int,
    variant: str,
    is_judged: bool = False,
) -> FleetRun:
    name = f"N{robots}"
    replay = ReplaySettings.sustained(
        robots,
        admission=AdmissionChoice("aimd", {"interval_s": INTERVAL_S, **settings}),
        engine=engine(version),
        duration_s=QUICK_S if workplace.quick else CAPPED_S,
    )
    jobs = jobs_of(replay, workplace.seeds(num_seeds, 1))
    return FleetRun(name, f"{PATH}/{name}", jobs, False, variant, is_judged)


def _of_both_fleets(row: Row) -> Row:
    """The study says these of all its records together."""
    return replace(row, study=study_value(f"{PATH}/{row.quantity}"))


def _draw(workplace: Workplace, by_row: dict[str, list[ReplayResult]]) -> Picture:
    plt = pyplot()
    figure, axes = plt.subplots(
        3, len(by_row), figsize=(6 * len(by_row), 7), sharex=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for column, (name, found) in zip(axes.T, by_row.items(), strict=True):
        for result in found:
            ends_min = [window.end_s / 60 for window in result.windows]
            caps = [window.cap for window in result.windows]
            hits = [float("nan") if w.hit is None else w.hit for w in result.windows]
            usages = [window.kv_cache_usage for window in result.windows]
            for axis, values in zip(column, (caps, hits, usages), strict=True):
                axis.plot(ends_min, values, "-", color="C0", alpha=0.45)
        column[0].set_title(f"{name[1:]} robots, one line per seed", fontsize=10)
        column[0].set_ylabel("cap")
        column[1].set_ylabel("full-prefix hit")
        column[2].set_ylabel("kv_cache_usage")
        for axis, threshold, text in (
            (column[1], AimdSettings.hit_low, "hits are low below"),
            (column[2], AimdSettings.usage_high, "usage is high above"),
        ):
            axis.axhline(threshold, color="black", linestyle="--", linewidth=0.9)
            axis.set_ylim(0, 1.03)
            beside = axis.get_yaxis_transform()
            axis.text(0.01, threshold, text, fontsize=8, va="bottom", transform=beside)
        column[2].set_xlabel("virtual minutes")
        for axis in column:
            axis.grid(alpha=0.3)
    path = workplace.folder / "aimd.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")
    return Picture(path.name, "the controller's cap and the two signals that it looks at")


CASE = Case(
    "the study's AIMD: its usage signal stays low while hits fall, so it never lowers its cap",
    2,
    run,
    quick_minutes=0.1,
    uses_study_engine=True,
)
