"""How many robots the action tier carries before one of them starves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from server.core.batching import STUDY_TABLE
from sim.fleet.action import Fleet, simulate
from sim.fleet.action_robot import RobotPlan
from sim.fleet.disciplines import DISCIPLINES
from sim.fleet.network import NetworkModel
from sim.paper import study
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.rows import Row, StudyValue

NUM_SEEDS = 2
#: A size passes if no robot starves in more than this share of its ticks, with either seed.
LIMIT = 0.01
COMPARED = ("paced", "prefetch", "on_empty", "study")
DURATION_S = 40.0
QUICK_DURATION_S = 15.0
CHURN_DURATION_S = 120.0
CHURN_INTERVAL_S = 10.0
JITTER = NetworkModel(delay_s=0.001, jitter_s=0.005)
#: Robot counts that the study tried. They are always run, so that both can be set side by side.
STUDY_SIZES = (1, 8, 16, 32)
SIZES = {
    (20, 1): (1, 2, 3, 4, 6, 7, 8, 10, 16, 32),
    (20, 2): (1, 2, 4, 6, 8, 12, 14, 15, 16, 32),
    (10, 1): (1, 2, 4, 6, 8, 12, 15, 16, 20, 24, 25, 26, 32),
    (10, 2): (1, 2, 4, 8, 16, 24, 32, 40, 48, 50, 52),
    (5, 1): (1, 4, 8, 16, 24, 32, 40, 48, 60, 61, 62),
    (5, 2): (1, 8, 16, 32, 48, 64),
}
QUICK_SIZES = {
    (20, 1): (1, 6, 7, 8, 16, 32),
    (20, 2): (1, 8, 14, 15, 16, 32),
    (10, 1): (1, 8, 16, 25, 26, 32),
    (10, 2): (1, 8, 16, 32, 50, 52),
    (5, 1): (1, 8, 16, 32, 61, 62),
    (5, 2): (1, 8, 16, 32, 64),
}
QUICK_COMPARED = ("paced", "study")
#: Batches of a GPU don't all take their median. The study gives no spread; this one is assumed, to
#: see what it does to sizes at the limit.
SPREAD = 0.10
CHURN_SIZES = (5, 6, 7)
#: The study's capacities on its own sizes; None: none of those tried passed. At 5 Hz the largest
#: size tried passed.
STUDY_CAPACITY = {(20, 1): 1, (20, 2): None, (10, 1): 8, (10, 2): 16, (5, 1): 32, (5, 2): 32}
#: The same as rows take it: 8 was the smallest size tried at 20 Hz with two GPUs.
_STUDY_ROBOTS: dict[tuple[int, int], StudyValue] = {
    (20, 1): 1,
    (20, 2): (None, 7),
    (10, 1): 8,
    (10, 2): 16,
    (5, 1): (32, None),
    (5, 2): (32, None),
}
#: Starved ticks in the study's worst run, as numbers for its own words, by rate, GPUs and robots.
_STUDY_STARVED: dict[tuple[int, int, int], StudyValue] = {
    (20, 1, 1): 0.01,
    (20, 1, 8): (0.30, 0.40),
    (20, 1, 32): 0.70,
    (10, 1, 8): 0.01,
    (10, 1, 16): (0.01, None),
    (10, 1, 32): 0.40,
    (10, 2, 16): (None, 0.01),
    (10, 2, 32): (0.10, 0.20),
    (5, 1, 32): 0.0,
    (5, 2, 32): 0.0,
}
#: How well a figure's curve can be told from words: tens of percent, and those near the limit.
_READING_TOLERANCE = 0.10
_READING_TOLERANCE_NEAR_LIMIT = 0.01


@dataclass(frozen=True)
class Curve:
    """One line of the figure: the same setting for ever more robots."""

    hz: int
    gpus: int
    discipline: str
    latency_spread: float = 0.0


@dataclass(frozen=True)
class Effort:
    """How much is run.

    Attributes:
        sizes: Robots by rate and GPUs; of curves with a spread, the study's sizes only.
    """

    sizes: dict[tuple[int, int], tuple[int, ...]]
    compared: tuple[str, ...]
    duration_s: float
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class ChurnCurve:
    """Robots that come and go over a network with jitter."""

    grid_by: Literal["receipt", "clock"]


def run(workplace: Workplace) -> None:
    """Leaves action-capacity.json and two pictures."""
    effort = Effort(
        QUICK_SIZES if workplace.quick else SIZES,
        QUICK_COMPARED if workplace.quick else COMPARED,
        QUICK_DURATION_S if workplace.quick else DURATION_S,
        workplace.seeds(NUM_SEEDS, NUM_SEEDS),
    )
    curves = [Curve(hz, gpus, name) for hz, gpus in SIZES for name in effort.compared]
    curves += [Curve(hz, gpus, "study", SPREAD) for hz, gpus in SIZES]
    # The longest first, so that no process is left with one of them at the end.
    curves.sort(key=lambda curve: (curve.discipline != "paced", -curve.gpus))
    jobs = [(curve, effort) for curve in curves]
    points = [point for part in workplace.map(_points, jobs, "curves") for point in part]
    order = {curve: place for place, curve in enumerate(curves)}
    points.sort(key=lambda point: (order[_curve_of(point)], point["robots"]))
    churn_curves = [] if workplace.quick else [ChurnCurve("clock"), ChurnCurve("receipt")]
    churn_jobs = [(curve, effort.seeds) for curve in churn_curves]
    churn = [row for part in workplace.map(_churn_points, churn_jobs, "churn") for row in part]
    capacities = [
        {
            **asdict(curve),
            "robots": capacity(points, curve),
            "robots_among_study_sizes": capacity(points, curve, STUDY_SIZES),
            "study_robots": STUDY_CAPACITY[curve.hz, curve.gpus],
        }
        for curve in sorted(
            curves,
            key=lambda c: (COMPARED.index(c.discipline), c.latency_spread, -c.hz, c.gpus),
        )
    ]
    pictures = [
        Picture(
            "action-capacity-study.png",
            "starved ticks over robots, counted as the study counts, with its own figures",
            figure=5,
        ),
        Picture("action-capacity.png", "the worst robot's starved ticks, by discipline"),
    ]
    _draw_study(points, workplace, pictures[0].file)
    _draw(points, capacities, effort, workplace, pictures[1].file)
    workplace.write_case(
        "action-capacity",
        [*capacity_rows(points, effort), *starved_rows(points)],
        settings=_settings(effort),
        pictures=pictures,
        notes=_NOTES,
        capacity=capacities,
        points=points,
        churn_points=churn,
    )
    for line in table(capacities, effort):
        workplace.say(line)
    for row in churn:
        workplace.say(
            f"churn and jitter, grid by {row['grid_by']}: {row['robots']} robots, worst "
            f"{row['worst_starved_fraction']:.2%}"
        )


_NOTES = [
    "The study measured; ours runs the server's batcher and the robot's control loop in virtual "
    "time over the study's own latencies. 'study' is its accounting: rows of a chunk count from "
    "its arrival, robots are not paced. 'paced' is this server's default.",
    "At 10 Hz on one GPU two batches of 8 take 498 of the 500 ms that 16 robots have, so in "
    "virtual time 16 pass by a hair, and the study measured that they do not. If batches take up "
    f"to {SPREAD:.0%} more or less than their median (assumed, none is published) it is 8 here, "
    "too.",
]


def _curve_of(point: dict[str, Any]) -> Curve:
    spread = point.get("latency_spread", 0.0)
    return Curve(point["hz"], point["gpus"], point["discipline"], spread)


def capacity_rows(points: Sequence[dict[str, Any]], effort: Effort) -> list[Row]:
    """Robots carried by rate and GPUs: the study's, counted as it counts, and ours."""
    rows = []
    for (hz, gpus), sizes in effort.sizes.items():
        as_counted = Curve(hz, gpus, "study")
        spread = replace(as_counted, latency_spread=SPREAD)
        kinds: list[tuple[Curve, Sequence[int] | None, str, bool]] = [
            (as_counted, STUDY_SIZES, "as the study counts, its sizes", True),
            (spread, STUDY_SIZES, f"the same, batches ±{SPREAD:.0%}", True),
            (as_counted, None, "as the study counts, all sizes", False),
        ]
        kinds += [
            (Curve(hz, gpus, name), None, f"{name}: {DISCIPLINES[name].about}", False)
            for name in effort.compared
            if name != "study"
        ]
        for curve, among, variant, is_judged in kinds:
            found = capacity(points, curve, among)
            largest = max(sizes if among is None else among)
            rows.append(
                Row(
                    row=row_name(hz),
                    quantity=f"robots_{gpus}gpu",
                    unit="robots",
                    study=_STUDY_ROBOTS[hz, gpus],
                    ours=float(found or 0),
                    per_seed=tuple(
                        float(capacity(points, curve, among, seed) or 0)
                        for seed in range(len(effort.seeds))
                    ),
                    variant=variant,
                    within=0.0 if is_judged else None,
                    note=_capacity_note(found, largest),
                )
            )
    return rows


def _capacity_note(robots: int | None, largest: int) -> str:
    if robots is None:
        return "no size that was tried passes"
    return "the largest size tried, so at least" if robots == largest else ""


def starved_rows(points: Iterable[dict[str, Any]]) -> list[Row]:
    """Starved ticks of the worst run, counted as the study counts, where it gives a figure."""
    rows = []
    for point in points:
        curve = _curve_of(point)
        key = (curve.hz, curve.gpus, point["robots"])
        if curve.discipline != "study" or key not in _STUDY_STARVED:
            continue
        spread = f", batches ±{curve.latency_spread:.0%}" if curve.latency_spread else ""
        rows.append(
            Row(
                row=f"{row_name(curve.hz)}_{curve.gpus}gpu_N{point['robots']}",
                quantity="starved_worst_run",
                unit="share",
                study=_STUDY_STARVED[key],
                ours=point["starved_fraction"],
                per_seed=tuple(point["starved_fraction_by_seed"]),
                variant=f"as the study counts{spread}",
                within=_reading_tolerance(_STUDY_STARVED[key]),
                note="the study's is told in words from its figure",
            )
        )
    return rows


def _reading_tolerance(value: StudyValue) -> float:
    ends = value if isinstance(value, tuple) else (value,)
    is_near = all(end is None or end <= LIMIT for end in ends)
    return _READING_TOLERANCE_NEAR_LIMIT if is_near else _READING_TOLERANCE


def row_name(hz: int) -> str:
    """As in study.json."""
    names = list(study.value("action_tier/capacity_robots"))
    return next(name for name in names if name.startswith(f"{hz}Hz_"))


def capacity(
    points: Iterable[dict[str, Any]],
    curve: Curve,
    sizes: Sequence[int] | None = None,
    seed_place: int | None = None,
) -> int | None:
    """Largest number of robots that passes; None: no size that was tried does.

    Args:
        points: Of any curves.
        curve: Which of them.
        sizes: Robot counts to choose from; None: all.
        seed_place: Of the one seed that has to pass; None: all have to.
    """
    passing = [
        point["robots"]
        for point in points
        if _curve_of(point) == curve
        and (sizes is None or point["robots"] in sizes)
        and (
            point["worst_starved_fraction"]
            if seed_place is None
            else point["worst_starved_fraction_by_seed"][seed_place]
        )
        <= LIMIT
    ]
    return max(passing, default=None)


def table(capacities: Iterable[dict[str, Any]], effort: Effort) -> list[str]:
    """Capacities as lines of text."""
    heads = "".join(f"{f'{hz} Hz, {gpus} GPU':>13}" for hz, gpus in SIZES)
    lines = [f"{'robots carried':15}{heads}"]
    found = {
        (c["discipline"], (c["hz"], c["gpus"])): c["robots"]
        for c in capacities
        if not c["latency_spread"]
    }
    for name in effort.compared:
        words = (_in_words(found[name, key], tried) for key, tried in effort.sizes.items())
        lines.append(f"{name:15}" + "".join(f"{word:>13}" for word in words))
    words = (_in_words(STUDY_CAPACITY[key], STUDY_SIZES) for key in SIZES)
    return [*lines, f"{'published':15}" + "".join(f"{word:>13}" for word in words)]


def _settings(effort: Effort) -> dict[str, Any]:
    return {
        "latency_table": STUDY_TABLE.to_json(),
        "seeds": effort.seeds,
        "limit": LIMIT,
        "horizon": Fleet.horizon,
        "executed_steps": Fleet.executed_steps,
        "duration_s": effort.duration_s,
        "network": asdict(NetworkModel()),
        "margin_s": Fleet.margin_s,
        "max_batch": Fleet.max_batch,
        "disciplines": {name: DISCIPLINES[name].about for name in effort.compared},
        "admission": "nobody is refused, so that sizes beyond the capacity can be seen; a server "
        "with the same table refuses the first robot that does not fit",
        "starved_tick": "the policy tool is active, its first chunk has come, and no row is valid "
        "for this control step; for 'study', rows count from arrival instead",
        "worst_starved_fraction": "of the robot that starved most, with the worse seed; the ticks "
        "since its first chunk count",
        "churn": {
            "duration_s": CHURN_DURATION_S,
            "interval_s": CHURN_INTERVAL_S,
            "network": asdict(JITTER),
            "robots": "most at a time; every interval the robot that is there longest leaves, or a "
            "new one joins, in turn",
            "grid_by": "how a robot lays its grid when its stream opens: 'receipt', from when the "
            "server's answer came; 'clock', through the measured clock offset (+-1 ms)",
        },
    }


def _points(job: tuple[Curve, Effort]) -> list[dict[str, Any]]:
    curve, effort = job
    points: list[dict[str, Any]] = []
    for size in effort.sizes[curve.hz, curve.gpus] if not curve.latency_spread else STUDY_SIZES:
        hopeless = len(points) >= 2 and all(p["worst_starved_fraction"] > 0.2 for p in points[-2:])
        if hopeless and size not in STUDY_SIZES:
            continue
        fleet = Fleet(
            tuple(RobotPlan(curve.hz) for _ in range(size)),
            curve.discipline,
            num_gpus=curve.gpus,
            duration_s=effort.duration_s,
            latency_spread=curve.latency_spread,
        )
        points.append({**asdict(curve), **_measure(fleet, size, effort.seeds)})
    return points


def _churn_points(job: tuple[ChurnCurve, tuple[int, ...]]) -> list[dict[str, Any]]:
    curve, seeds = job
    return [
        {
            "hz": 20,
            "gpus": 1,
            "discipline": "paced",
            "grid_by": curve.grid_by,
            **_measure(
                Fleet(
                    churn(size, 20, CHURN_DURATION_S, CHURN_INTERVAL_S),
                    "paced",
                    duration_s=CHURN_DURATION_S,
                    network=JITTER,
                    grid_by=curve.grid_by,
                ),
                size,
                seeds,
            ),
        }
        for size in CHURN_SIZES
    ]


def churn(size: int, hz: float, duration_s: float, interval_s: float) -> tuple[RobotPlan, ...]:
    """`size` robots at most: every interval the oldest leaves, or a new one joins, in turn."""
    num_changes = int(duration_s / interval_s - 1e-9)
    times_s = [interval_s * (place + 1) for place in range(num_changes)]
    leaves_s, joins_s = times_s[0::2], times_s[1::2]
    starts_s = [0.0] * size + joins_s
    ends_s: list[float | None] = [*leaves_s, *[None] * len(starts_s)]
    return tuple(
        RobotPlan(hz, start_s, end_s) for start_s, end_s in zip(starts_s, ends_s, strict=False)
    )


def _measure(fleet: Fleet, size: int, seeds: Sequence[int]) -> dict[str, Any]:
    outcomes = [simulate(fleet, seed) for seed in seeds]
    worst = [outcome.worst_starved_fraction for outcome in outcomes]
    return {
        "robots": size,
        "worst_starved_fraction": max(worst),
        "worst_starved_fraction_by_seed": worst,
        "starved_fraction": max(outcome.starved_fraction for outcome in outcomes),
        "starved_fraction_by_seed": [outcome.starved_fraction for outcome in outcomes],
        "gpu_busy_fraction": max(outcome.busy_fraction for outcome in outcomes),
        "passes": max(worst) <= LIMIT,
    }


def _draw(
    points: list[dict[str, Any]],
    capacities: list[dict[str, Any]],
    effort: Effort,
    workplace: Workplace,
    file: str,
) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), sharey=True, layout="constrained")
    found = {_curve_of(c): c["robots"] for c in capacities}
    for (hz, gpus), axis in zip(sorted(SIZES, key=lambda k: (k[1], -k[0])), axes.flat, strict=True):
        for name, marker in zip(effort.compared, "os^x", strict=False):
            curve = Curve(hz, gpus, name)
            line = [point for point in points if _curve_of(point) == curve]
            axis.plot(
                [point["robots"] for point in line],
                [100 * point["worst_starved_fraction"] for point in line],
                marker=marker,
                markersize=4,
                label=f"{name}: {_in_words(found[curve], effort.sizes[hz, gpus])}",
            )
        axis.axhline(100 * LIMIT, color="grey", linewidth=0.8, linestyle="--")
        axis.set_xscale("log", base=2)
        axis.set_yscale("symlog", linthresh=1.0)
        axis.set_ylim(-0.05, 105)
        ticks = [1, 2, 4, 8, 16, 32, 64]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
        axis.set_title(f"{hz} Hz, {gpus} GPU" + ("s" if gpus > 1 else ""))
        published = _in_words(STUDY_CAPACITY[hz, gpus], STUDY_SIZES)
        axis.legend(
            title=f"robots carried (published: {published})",
            fontsize=8,
            title_fontsize=8,
            loc="center left",
        )
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("robots")
    for axis in axes[:, 0]:
        axis.set_ylabel("worst robot's starved ticks [%]")
    path = workplace.folder / file
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")


def _draw_study(points: list[dict[str, Any]], workplace: Workplace, file: str) -> None:
    """The study's axes: starved ticks of the worst run over robots, one panel for each rate."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), sharey=True, layout="constrained")
    for axis, hz in zip(axes, (20, 10, 5), strict=True):
        for gpus, color in ((1, "C0"), (2, "C1")):
            words = f"{gpus} GPU" + ("s" if gpus > 1 else "")
            for name, style in (("study", "-"), ("paced", ":")):
                curve = Curve(hz, gpus, name)
                line = [p for p in points if _curve_of(p) == curve and p["robots"] <= 32]
                axis.plot(
                    [point["robots"] for point in line],
                    [100 * point["starved_fraction"] for point in line],
                    color=color,
                    linestyle=style,
                    marker="o" if name == "study" else None,
                    markersize=4,
                    label=f"{words}, {'as the study counts' if name == 'study' else 'paced'}",
                )
            for (its_hz, its_gpus, robots), value in _STUDY_STARVED.items():
                if (its_hz, its_gpus) == (hz, gpus):
                    _draw_published(axis, robots, value, color)
        axis.axhline(100 * LIMIT, color="grey", linewidth=0.8, linestyle="--")
        axis.set(title=f"{hz} Hz, D = {5 / hz:g} s", xlabel="robots", ylim=(-2, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("starved ticks in the worst run [%]")
    axes[2].plot([], [], linestyle="none", marker="D", color="0.3", label="published, in words")
    axes[2].legend(fontsize=8, loc="upper left")
    path = workplace.folder / file
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")


def _draw_published(axis: Any, robots: int, value: StudyValue, color: str) -> None:
    low, high = value if isinstance(value, tuple) else (value, value)
    ends = [end for end in (low, high) if end is not None]
    middle = 100 * sum(ends) / len(ends)
    half = 100 * (max(ends) - min(ends)) / 2
    axis.errorbar(
        [robots], [middle], yerr=[half], color=color, marker="D", markersize=6, capsize=4, alpha=0.6
    )


def _in_words(robots: int | None, tried: Sequence[int]) -> str:
    """A capacity; the largest size tried is only a lower bound of it."""
    if robots is None:
        return "none"
    return f"{robots} or more" if robots == max(tried) else str(robots)


CASE = Case(
    "robots that one and two GPUs carry at 20, 10 and 5 Hz, by discipline",
    1.5,
    run,
    quick_minutes=0.3,
)
