"""Fleets that never run out of work: where they collapse, when, and what that depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings, WorkloadChoice
from sim.fleet.statistics import Duration, SurvivalCurve, kaplan_meier, wilson_interval
from sim.paper import study
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.replay_rows import (
    ALL,
    BRAIN,
    CAPPED_S,
    FITTED_NOTE,
    QUICK_S,
    STUDY_FLEET_POOL_BLOCKS,
    STUDY_FLEET_STEP_TOKENS,
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
from sim.paper.rows import Row
from sim.paper.windows_plot import draw_windows

PATH = f"{BRAIN}/sustained_replay"
ROBOTS = (20, 24, 28, 32, 48)
STABLE = (20,)
#: The study's unlimited run at 48 was an earlier one, of its 20-minute scan.
SHORT = (48,)
SEEDS_STABLE, SEEDS_MAIN, SEEDS_OTHER, SEEDS_ABLATION = 4, 10, 2, 2
ABLATED = (24, 28)

LOW_HIT_AT = Quantity("first_window_under_80pct_hit_s", "s", lambda run: run.first_low_hit_s)
COLLAPSE_MINUTE = Quantity("collapse_minute", "min", lambda run: _minutes(run.first_low_hit_s))


def run(workplace: Workplace) -> None:
    """Leaves sustained.json and four pictures."""
    runs = fleet_runs(workplace)
    results = run_all(workplace, runs, "sustained fleets")
    main_version = workplace.engine_versions[0]
    main = {
        run.row: found
        for run, found in zip(runs, results, strict=True)
        if run.variant == variant_of(main_version)
    }
    rows = [row for run, found in zip(runs, results, strict=True) for row in rows_of(run, found)]
    curves: dict[str, SurvivalCurve] = {
        name: survival(main[name]) for name in ("N24", "N28") if name in main
    }
    pictures = [
        _draw_load(workplace, runs, results),
        _draw_windows(workplace, main),
        _draw_survival(workplace, curves),
        _draw_ablation(workplace, runs, results),
    ]
    workplace.write_case(
        "sustained",
        rows,
        settings=settings_json(runs),
        pictures=[picture for picture in pictures if picture is not None],
        survival={name: _curve_json(curve) for name, curve in curves.items()},
        notes=[
            "Rows of fleets that collapse are judged by whether the study's value, or both ends of "
            "its range, lies in the range of our seeds; when a run tips over is chance.",
            "first_window_under_80pct_hit_s: ours is the median by Kaplan-Meier. A run that never "
            "had such a window is censored: the upper end of the seeds' range is open then.",
            FITTED_NOTE,
            f"The study does not say how large its steps were, nor on which of its two pools its "
            f"fleets ran. Ours: {STUDY_FLEET_STEP_TOKENS:,} tokens and "
            f"{STUDY_FLEET_POOL_BLOCKS:,} blocks for all rows; what the others give is among the "
            "variants.",
            "The study's order of episodes is not known. Shuffled is the main one: with it the "
            "number of episodes that capped fleets complete comes out, in suite order it does not.",
        ],
    )
    say_rows(workplace, rows)


def fleet_runs(workplace: Workplace) -> list[FleetRun]:
    """All fleets, the ones to be judged first."""
    main, *others = workplace.engine_versions
    runs = [
        _fleet(workplace, robots, main, SEEDS_MAIN, variant_of(main), is_judged=True)
        for robots in ((20, 32) if workplace.quick else ROBOTS)
    ]
    if workplace.quick:
        return runs
    for other in others:
        runs += [_fleet(workplace, n, other, SEEDS_OTHER, variant_of(other)) for n in ROBOTS]
    for words, changes in ablations(main).items():
        for robots in ABLATED:
            variant = words if words.startswith("installed") else variant_of(main, words)
            run = _fleet(workplace, robots, main, SEEDS_ABLATION, variant)
            jobs = [replace(job, settings=replace(job.settings, **changes)) for job in run.jobs]
            runs.append(replace(run, jobs=tuple(jobs)))
    return runs


def ablations(version: Any) -> dict[str, dict[str, Any]]:
    """What is changed, one thing at a time, by what it is called."""
    changes: dict[str, dict[str, Any]] = {
        "suite order": {"workload": WorkloadChoice(order="suite")},
        "wall gaps": {"workload": WorkloadChoice(gap="wall")},
        "steps of 8,192": {"engine": engine(version, step_tokens=8192)},
        "steps of 16,384": {"engine": engine(version, step_tokens=16_384)},
        "no state groups": {"engine": engine(version, num_state_groups=0)},
        "pool of 4,270": {"engine": engine(version, pool_blocks=4270)},
    }
    if version == "study":
        every = engine("installed", retention_tokens=None)
        changes["installed vLLM, every snapshot"] = {"engine": every}
    return changes


def _fleet(
    workplace: Workplace,
    robots: int,
    version: Any,
    num_seeds: int,
    variant: str,
    is_judged: bool = False,
) -> FleetRun:
    duration_s = CAPPED_S if robots in SHORT else SUSTAINED_S
    settings = ReplaySettings.sustained(
        robots,
        engine=engine(version),
        duration_s=QUICK_S if workplace.quick else duration_s,
    )
    name = f"N{robots}"
    is_stable = robots in STABLE
    seeds = workplace.seeds(min(num_seeds, SEEDS_STABLE) if is_stable else num_seeds, 1)
    return FleetRun(name, f"{PATH}/{name}", jobs_of(settings, seeds), is_stable, variant, is_judged)


def rows_of(run: FleetRun, results: Sequence[ReplayResult]) -> list[Row]:
    """The study's quantities, and when and how often the fleet collapsed."""
    rows = run.rows(results, ALL)
    if run.is_stable:
        return rows
    # The mean of those that collapsed would be early by as many as did not.
    median_s = survival(results).median_s
    medians = {LOW_HIT_AT.name: median_s, COLLAPSE_MINUTE.name: _minutes(median_s)}
    rows += [
        replace(row, ours=medians[row.quantity], note="median by Kaplan-Meier")
        for row in run.rows(results, (LOW_HIT_AT, COLLAPSE_MINUTE))
    ]
    collapsed = [float(result.first_low_hit_s is not None) for result in results]
    low, high = wilson_interval(int(sum(collapsed)), len(collapsed))
    rows.append(
        Row(
            run.row,
            "collapsed_share",
            "share",
            study_collapsed_share(run.row),
            sum(collapsed) / len(collapsed),
            variant=run.variant,
            note=f"95% interval of ours {low:.2f} to {high:.2f}",
        )
    )
    return rows


def study_durations(name: str) -> list[Duration]:
    """Times of the study's runs of a fleet; empty: it gives none."""
    times = study_value(f"{PATH}/{name}/{LOW_HIT_AT.name}")
    if times is None:
        return []
    events = study.numbers(f"{PATH}/{name}/{LOW_HIT_AT.name}")
    num_runs = study.number(f"{PATH}/{name}/runs")
    assert isinstance(num_runs, (int, float))
    num_censored = int(num_runs) - len(events)
    return [
        *(Duration(time_s, happened=True) for time_s in events),
        *(Duration(SUSTAINED_S, happened=False) for _ in range(num_censored)),
    ]


def study_collapsed_share(name: str) -> float | None:
    """Of the study's runs of a fleet; None: it does not say."""
    durations = study_durations(name)
    if not durations:
        return None
    return sum(duration.happened for duration in durations) / len(durations)


def survival(results: Sequence[ReplayResult]) -> SurvivalCurve:
    """Of our runs of a fleet."""
    return kaplan_meier(
        Duration.observed(result.first_low_hit_s, result.duration_s) for result in results
    )


def _minutes(time_s: float | None) -> float | None:
    return None if time_s is None else time_s / 60


def _curve_json(curve: SurvivalCurve) -> dict[str, Any]:
    return {
        "steps": [vars(step) for step in curve.steps],
        "censored_s": list(curve.censored_s),
        "runs": curve.num_runs,
    }


def _draw_load(
    workplace: Workplace, runs: Sequence[FleetRun], results: Sequence[Sequence[ReplayResult]]
) -> Picture:
    """The study's figure 8."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    plain = {variant_of(version): f"C{i}" for i, version in enumerate(workplace.engine_versions)}
    for axis, quantity in zip(axes, ("rps", "hit"), strict=True):
        for variant, color in plain.items():
            label: str | None = f"ours, {variant}"
            for run, found in zip(runs, results, strict=True):
                if run.variant != variant:
                    continue
                robots = int(run.row[1:])
                values = [getattr(result, quantity) for result in found]
                known = [value for value in values if value is not None]
                axis.plot([robots] * len(known), known, ".", color=color, alpha=0.5, label=label)
                axis.plot([robots], [sum(known) / len(known)], "_", color=color, markersize=18)
                label = None
        points = [
            (int(name[1:]), value)
            for name in (f"N{robots}" for robots in ROBOTS)
            for value in _study_points(name, quantity)
        ]
        axis.plot(*zip(*points, strict=True), "x", color="black", markersize=9, label="study")
        axis.set_xlabel("robots")
        axis.set_ylabel("requests/s" if quantity == "rps" else "full-prefix hit")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    return _saved(workplace, figure, "sustained-load.png", "throughput and hits over robots", 8)


def _study_points(name: str, quantity: str) -> tuple[float, ...]:
    path = f"{PATH}/{name}/{quantity}"
    return () if study_value(path) is None else study.numbers(path)


def _draw_windows(workplace: Workplace, main: dict[str, list[ReplayResult]]) -> Picture:
    """The study's figure 9."""
    path = workplace.folder / "sustained-windows.png"
    groups = {name: main[name] for name in ("N20", "N32")}
    draw_windows(groups, path, title="two fleets over time, one line per seed")
    workplace.say(f"wrote {path}")
    return Picture(path.name, "hit rate, computed and generated tokens, N=20 and N=32", 9)


def _draw_survival(workplace: Workplace, curves: dict[str, SurvivalCurve]) -> Picture | None:
    if not curves:
        return None
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for color, (name, curve) in enumerate(curves.items()):
        for label, one, style in (
            (f"{name}, ours ({curve.num_runs} runs)", curve, "-"),
            (f"{name}, study", kaplan_meier(study_durations(name)), "--"),
        ):
            times_s, shares = one.outline(SUSTAINED_S)
            axis.step(
                [time_s / 60 for time_s in times_s],
                shares,
                where="post",
                color=f"C{color}",
                linestyle=style,
                label=label,
            )
            axis.plot(
                [time_s / 60 for time_s in one.censored_s],
                [one.survival_at(time_s) for time_s in one.censored_s],
                "|",
                color=f"C{color}",
                markersize=9,
            )
    axis.set_xlabel("virtual minutes")
    axis.set_ylabel("runs without a window under 80% hits")
    axis.set_ylim(-0.03, 1.03)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return _saved(workplace, figure, "sustained-survival.png", "time to the first low window", None)


def _draw_ablation(
    workplace: Workplace, runs: Sequence[FleetRun], results: Sequence[Sequence[ReplayResult]]
) -> Picture | None:
    """Requests/s of the ablated fleets under each change."""
    variants = list(dict.fromkeys(run.variant for run in runs))
    if len(variants) < 2:
        return None
    plt = pyplot()
    figure, axes = plt.subplots(1, len(ABLATED), figsize=(12, 5), sharey=True, layout="constrained")
    for axis, robots in zip(axes, ABLATED, strict=True):
        name = f"N{robots}"
        for run, found in zip(runs, results, strict=True):
            if run.row == name:
                place = variants.index(run.variant)
                axis.plot([result.rps for result in found], [place] * len(found), ".", alpha=0.6)
        for value in _study_points(name, "rps"):
            axis.axvline(value, color="black", linestyle="--", linewidth=0.9)
        axis.set_title(f"{robots} robots; dashed: study", fontsize=10)
        axis.set_xlabel("requests/s, one dot per seed")
        axis.set_yticks(range(len(variants)), variants, fontsize=8)
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
    return _saved(workplace, figure, "sustained-ablation.png", "what a collapse depends on", None)


def _saved(workplace: Workplace, figure: Any, file: str, title: str, number: int | None) -> Picture:
    path: Path = workplace.folder / file
    figure.savefig(path, dpi=120)
    pyplot().close(figure)
    workplace.say(f"wrote {path}")
    return Picture(file, title, number)


CASE = Case(
    "fleets that never run out of work: throughput, hits, time to collapse, ablations",
    7,
    run,
    quick_minutes=0.2,
    uses_study_engine=True,
)
