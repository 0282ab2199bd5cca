"""Ten robots, one of them fast: who starves under which batcher."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from server.core.batching import STUDY_TABLE
from sim.fleet.action import Fleet, FleetOutcome, simulate
from sim.fleet.action_robot import RobotPlan
from sim.fleet.disciplines import DISCIPLINES
from sim.fleet.network import NetworkModel
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.rows import Row

NUM_SEEDS = 2
DURATION_S = 60.0
QUICK_DURATION_S = 20.0
COMPARED = ("fifo", "round_robin", "edf", "lookahead", "paced")
ORDER_NOTE = (
    "FIFO, RR and EDF differ in who goes first. A free worker takes everything that waits, up to "
    "max_batch, so order matters only where more than max_batch wait at once, which is rare here."
)
LABELS = {
    "fifo": "FIFO",
    "round_robin": "RR",
    "edf": "EDF",
    "lookahead": "lookahead",
    "paced": "ours",
}


@dataclass(frozen=True)
class Mix:
    """Robots of different rates at one GPU.

    Attributes:
        max_batch: Below the number of robots it matters who is taken first.
    """

    name: str
    control_hz: tuple[float, ...]
    max_batch: int


MIXES = (
    Mix("one at 20 Hz, nine at 5 Hz", (20.0, *[5.0] * 9), 64),
    Mix("one at 20 Hz, nine at 5 Hz, batches of 4 at most", (20.0, *[5.0] * 9), 4),
    Mix("one at 20 Hz, nine at 10 Hz", (20.0, *[10.0] * 9), 64),
)


def run(workplace: Workplace) -> None:
    """Leaves mixed-rates.json and mixed-rates.png."""
    duration_s = QUICK_DURATION_S if workplace.quick else DURATION_S
    seeds = workplace.seeds(NUM_SEEDS, 1)
    jobs = [(mix, name, seed, duration_s) for mix in MIXES for name in COMPARED for seed in seeds]
    runs = list(workplace.map(_run, jobs, "runs"))
    summary = [_summary(mix, name, runs) for mix in MIXES for name in COMPARED]
    picture = Picture("mixed-rates.png", "starved ticks and progress of ten robots of two rates")
    _draw(summary, workplace, picture.file)
    workplace.write_case(
        "mixed-rates",
        [row for line in summary for row in rows_of(line)],
        settings={
            "latency_table": STUDY_TABLE.to_json(),
            "seeds": seeds,
            "duration_s": duration_s,
            "horizon": Fleet.horizon,
            "executed_steps": Fleet.executed_steps,
            "network": asdict(NetworkModel()),
            "mixes": [asdict(mix) for mix in MIXES],
            "batchers": {name: DISCIPLINES[name].about for name in COMPARED},
            "progress": "ticks with an action, as a share of all ticks of the policy tool",
            "jain_index": "of the robots' progress; 1: all equal",
        },
        pictures=[picture],
        notes=[ORDER_NOTE, "The study has no fleet of several rates; the rows are ours alone."],
        summary=summary,
        runs=runs,
    )
    for line in summary:
        workplace.say(
            f"{line['mix']:50} {LABELS[line['batcher']]:10} worst "
            f"{line['worst_starved_fraction']:6.1%}  all {line['starved_fraction']:6.1%}  "
            f"Jain {line['jain_index']:.4f}"
        )
    workplace.say(ORDER_NOTE)


def rows_of(line: dict[str, Any]) -> list[Row]:
    """The report's rows of one mix and batcher; the worse seed is ours."""
    note = f"{line['mix']}; the worse seed"
    name = f"{line['mix']}: {LABELS[line['batcher']]}"
    return [
        Row(name, quantity, unit, None, line[key], tuple(line[f"{key}_by_seed"]), note=note)
        for key, quantity, unit in (
            ("worst_starved_fraction", "starved_worst_robot", "share"),
            ("starved_fraction", "starved_all_robots", "share"),
            ("jain_index", "jain", "index"),
        )
    ]


def _run(job: tuple[Mix, str, int, float]) -> dict[str, Any]:
    mix, name, seed, duration_s = job
    fleet = Fleet(
        tuple(RobotPlan(hz) for hz in mix.control_hz),
        name,
        duration_s=duration_s,
        max_batch=mix.max_batch,
    )
    outcome: FleetOutcome = simulate(fleet, seed)
    return {
        "mix": mix.name,
        "batcher": name,
        "seed": seed,
        "worst_starved_fraction": outcome.worst_starved_fraction,
        "starved_fraction": outcome.starved_fraction,
        "jain_index": outcome.jain_index,
        "robots": [
            {
                "hz": robot.control_hz,
                "starved_fraction": robot.starved_fraction,
                "progress": robot.progress,
            }
            for robot in outcome.robots
        ],
    }


def _summary(mix: Mix, name: str, all_runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The worse seed counts; for a robot, its worse run."""
    runs = [run for run in all_runs if run["mix"] == mix.name and run["batcher"] == name]
    robots = zip(*(run["robots"] for run in runs), strict=True)
    by_seed = {
        f"{key}_by_seed": [run[key] for run in runs]
        for key in ("worst_starved_fraction", "starved_fraction", "jain_index")
    }
    return {
        "mix": mix.name,
        "batcher": name,
        "worst_starved_fraction": max(by_seed["worst_starved_fraction_by_seed"]),
        "starved_fraction": max(by_seed["starved_fraction_by_seed"]),
        "jain_index": min(by_seed["jain_index_by_seed"]),
        **by_seed,
        "progress": [min(robot["progress"] for robot in group) for group in robots],
    }


def _draw(summary: list[dict[str, Any]], workplace: Workplace, file: str) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(len(MIXES), 2, figsize=(12, 9), layout="constrained", squeeze=False)
    for mix, (left, right) in zip(MIXES, axes, strict=True):
        lines = [line for line in summary if line["mix"] == mix.name]
        names = [f"{LABELS[line['batcher']]}\nJain {line['jain_index']:.3f}" for line in lines]
        for part, width_sign, label in (
            ("worst_starved_fraction", -1, "worst robot"),
            ("starved_fraction", 1, "all robots"),
        ):
            places = [place + width_sign * 0.2 for place in range(len(lines))]
            bars = left.bar(places, [100 * line[part] for line in lines], 0.4, label=label)
            left.bar_label(bars, fmt="%.1f", fontsize=8)
        left.set_xticks(range(len(lines)), names, fontsize=8)
        left.set_ylabel("starved ticks [%]")
        left.set_title(mix.name, fontsize=10)
        left.margins(y=0.15)
        left.legend(fontsize=8)
        for line, marker in zip(lines, "os^xD", strict=True):
            robots = range(1, len(line["progress"]) + 1)
            right.plot(
                robots,
                [100 * value for value in line["progress"]],
                marker=marker,
                markersize=4,
                linewidth=0.8,
                label=LABELS[line["batcher"]],
            )
        right.set_xticks(range(1, len(mix.control_hz) + 1))
        right.set_ylim(0, 105)
        right.set_ylabel("progress [%]")
        right.set_xlabel("robot (1 is the fast one)")
        right.legend(fontsize=8, loc="lower right")
        right.grid(alpha=0.3)
    path = workplace.folder / file
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")


CASE = Case(
    "ten robots of two rates under five batchers: starved ticks and progress",
    0.2,
    run,
    quick_minutes=0.1,
)
