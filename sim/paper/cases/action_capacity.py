"""How many robots the action tier carries before one of them starves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from server.core.batching import STUDY_TABLE
from sim.fleet.action import Fleet, simulate
from sim.fleet.action_robot import RobotPlan
from sim.fleet.disciplines import DISCIPLINES
from sim.fleet.network import NetworkModel
from sim.paper.case import Case, Workplace
from sim.paper.plot import pyplot

SEEDS = (0, 1)
#: A size passes if no robot starves in more than this share of its ticks, with either seed.
LIMIT = 0.01
COMPARED = ("paced", "prefetch", "on_empty", "study")
DURATION_S = 40.0
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
CHURN_SIZES = (5, 6, 7)
#: The study's capacities on its own sizes; None: none of those tried passed. At 5 Hz the largest
#: size tried passed.
STUDY_CAPACITY = {(20, 1): 1, (20, 2): None, (10, 1): 8, (10, 2): 16, (5, 1): 32, (5, 2): 32}


@dataclass(frozen=True)
class Curve:
    """One line of the figure: the same setting for ever more robots."""

    hz: int
    gpus: int
    discipline: str


@dataclass(frozen=True)
class ChurnCurve:
    """Robots that come and go over a network with jitter."""

    grid_by: Literal["receipt", "clock"]


def run(workplace: Workplace) -> None:
    """Leaves action-capacity.json and action-capacity.png."""
    curves = [Curve(hz, gpus, name) for hz, gpus in SIZES for name in COMPARED]
    # The longest first, so that no process is left with one of them at the end.
    curves.sort(key=lambda curve: (curve.discipline != "paced", -curve.gpus))
    rows = [row for part in workplace.map(_rows, curves, "curves") for row in part]
    order = {curve: place for place, curve in enumerate(curves)}
    rows.sort(key=lambda r: (order[Curve(r["hz"], r["gpus"], r["discipline"])], r["robots"]))
    churn_curves = [ChurnCurve("clock"), ChurnCurve("receipt")]
    churn = [row for part in workplace.map(_churn_rows, churn_curves, "churn") for row in part]
    capacities = [
        {
            **asdict(curve),
            "robots": capacity(rows, curve),
            "robots_among_study_sizes": capacity(rows, curve, STUDY_SIZES),
            "study_robots": STUDY_CAPACITY[curve.hz, curve.gpus],
        }
        for curve in sorted(curves, key=lambda c: (COMPARED.index(c.discipline), -c.hz, c.gpus))
    ]
    workplace.write(
        "action-capacity",
        {
            "command": "python -m sim paper action-capacity",
            "settings": _settings(),
            "capacity": capacities,
            "rows": rows,
            "churn_rows": churn,
        },
    )
    for line in table(capacities):
        workplace.say(line)
    for row in churn:
        workplace.say(
            f"churn and jitter, grid by {row['grid_by']}: {row['robots']} robots, worst "
            f"{row['worst_starved_fraction']:.2%}"
        )
    _draw(rows, capacities, workplace)


def capacity(
    rows: Iterable[dict[str, Any]], curve: Curve, sizes: Sequence[int] | None = None
) -> int | None:
    """Largest number of robots that passes; None: no size that was tried does."""
    passing = [
        row["robots"]
        for row in rows
        if Curve(row["hz"], row["gpus"], row["discipline"]) == curve
        and row["worst_starved_fraction"] <= LIMIT
        and (sizes is None or row["robots"] in sizes)
    ]
    return max(passing, default=None)


def table(capacities: Iterable[dict[str, Any]]) -> list[str]:
    """Capacities as lines of text."""
    heads = "".join(f"{f'{hz} Hz, {gpus} GPU':>13}" for hz, gpus in SIZES)
    lines = [f"{'robots carried':15}{heads}"]
    found = {(c["discipline"], (c["hz"], c["gpus"])): c["robots"] for c in capacities}
    for name in COMPARED:
        words = (_in_words(found[name, key], tried) for key, tried in SIZES.items())
        lines.append(f"{name:15}" + "".join(f"{word:>13}" for word in words))
    words = (_in_words(STUDY_CAPACITY[key], STUDY_SIZES) for key in SIZES)
    return [*lines, f"{'published':15}" + "".join(f"{word:>13}" for word in words)]


def _settings() -> dict[str, Any]:
    return {
        "latency_table": STUDY_TABLE.to_json(),
        "seeds": SEEDS,
        "limit": LIMIT,
        "horizon": Fleet.horizon,
        "executed_steps": Fleet.executed_steps,
        "duration_s": DURATION_S,
        "network": asdict(NetworkModel()),
        "margin_s": Fleet.margin_s,
        "max_batch": Fleet.max_batch,
        "disciplines": {name: DISCIPLINES[name].about for name in COMPARED},
        "admission": "nobody is refused, so that sizes beyond the capacity can be seen; a server "
        "with the same table refuses the first robot that does not fit",
        "study_at_10_hz": "two batches of 8 take 498 ms of the 500 ms that 16 robots have; these "
        "fall on either side of the limit by less than the table's own spread",
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


def _rows(curve: Curve) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for size in SIZES[curve.hz, curve.gpus]:
        hopeless = len(rows) >= 2 and all(r["worst_starved_fraction"] > 0.2 for r in rows[-2:])
        if hopeless and size not in STUDY_SIZES:
            continue
        fleet = Fleet(
            tuple(RobotPlan(curve.hz) for _ in range(size)),
            curve.discipline,
            num_gpus=curve.gpus,
            duration_s=DURATION_S,
        )
        rows.append({**asdict(curve), **_measure(fleet, size)})
    return rows


def _churn_rows(curve: ChurnCurve) -> list[dict[str, Any]]:
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


def _measure(fleet: Fleet, size: int) -> dict[str, Any]:
    outcomes = [simulate(fleet, seed) for seed in SEEDS]
    worst = [outcome.worst_starved_fraction for outcome in outcomes]
    return {
        "robots": size,
        "worst_starved_fraction": max(worst),
        "worst_starved_fraction_by_seed": worst,
        "starved_fraction": max(outcome.starved_fraction for outcome in outcomes),
        "gpu_busy_fraction": max(outcome.busy_fraction for outcome in outcomes),
        "passes": max(worst) <= LIMIT,
    }


def _draw(
    rows: list[dict[str, Any]], capacities: list[dict[str, Any]], workplace: Workplace
) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), sharey=True, layout="constrained")
    found = {(c["discipline"], c["hz"], c["gpus"]): c["robots"] for c in capacities}
    for (hz, gpus), axis in zip(sorted(SIZES, key=lambda k: (k[1], -k[0])), axes.flat, strict=True):
        for name, marker in zip(COMPARED, "os^x", strict=True):
            line = [
                r
                for r in rows
                if Curve(r["hz"], r["gpus"], r["discipline"]) == Curve(hz, gpus, name)
            ]
            axis.plot(
                [r["robots"] for r in line],
                [100 * r["worst_starved_fraction"] for r in line],
                marker=marker,
                markersize=4,
                label=f"{name}: {_in_words(found[name, hz, gpus], SIZES[hz, gpus])}",
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
    path = workplace.folder / "action-capacity.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")


def _in_words(robots: int | None, tried: Sequence[int]) -> str:
    """A capacity; the largest size tried is only a lower bound of it."""
    if robots is None:
        return "none"
    return f"{robots} or more" if robots == max(tried) else str(robots)


CASE = Case("robots that one and two GPUs carry at 20, 10 and 5 Hz, by discipline", 5, run)
