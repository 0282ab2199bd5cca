"""Who lets episodes in: ours against the best static cap that a sweep finds, and against others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sim.fleet.replay.result import ReplayResult
from sim.fleet.statistics import seed_mean
from sim.paper.admission_cells import (
    DURATION_S,
    FAIR_EPISODES,
    MIXES,
    NUM_ROBOTS,
    OURS,
    OURS_MISLED,
    Cell,
    Mix,
    cells,
    fair_jobs,
)
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.rows import Row, seed_row

QUANTITIES = (("rps", "1/s"), ("episodes_per_min", "1/min"))
#: "No run under": after the warm-up.
LEAST_HIT = 0.95
LEAST_JAIN = 0.95
_FAIR_SEED = 0
#: From so many seeds on it is the full sweep: all caps, all policies, and how even it is.
_FULL_SEEDS = 2

Found = dict[tuple[str, str], list[ReplayResult]]


def run(workplace: Workplace) -> None:
    """Leaves admission.json, admission.md and a picture."""
    seeds = workplace.seeds(1, 1)
    is_full = len(seeds) >= _FULL_SEEDS
    chosen = cells(seeds, is_full=is_full, mixes=MIXES[:1] if workplace.quick else MIXES)
    results = iter(workplace.replays([job for cell in chosen for job in cell.jobs], "admission"))
    found: Found = {
        (cell.mix.name, cell.policy): [next(results) for _ in cell.jobs] for cell in chosen
    }
    rows = [row for cell in chosen for row in _rows(cell, found[cell.mix.name, cell.policy])]
    mixes = list(dict.fromkeys(cell.mix for cell in chosen))
    for mix in mixes:
        rows += _share_rows(mix, found)
    if is_full:
        jobs = fair_jobs(_FAIR_SEED)
        even = workplace.replays(list(jobs.values()), "admission, evenness")
        for (mix_name, robots), result in zip(jobs, even, strict=True):
            rows += _fair_rows(mix_name, robots, result)
    table = _table(mixes, found)
    path = workplace.folder / "admission.md"
    path.write_text(f"Made with `{workplace.command('admission')}`.\n\n{table}\n", encoding="utf-8")
    workplace.say(f"wrote {path}")
    workplace.write_case(
        "admission",
        rows,
        settings={
            "seeds": list(seeds),
            "num_robots": NUM_ROBOTS,
            "duration_s": DURATION_S,
            "settings": chosen[0].jobs[0].settings.to_json(),
        },
        pictures=[_draw(workplace, mixes, found)],
        notes=[
            "The study has no such table. The best static cap is the one with most requests/s over "
            "all seeds of its mix, known only after the sweep.",
            "One fleet of 48 robots stands for 32 and 96: the door is first in, first out, so as "
            "long as somebody waits the brain's load is the same. Waits and evenness are not, and "
            "have rows of their own.",
        ],
    )
    for line in table.splitlines():
        workplace.say(line)


def _rows(cell: Cell, results: Sequence[ReplayResult]) -> list[Row]:
    name = f"{cell.mix.name}_N{NUM_ROBOTS}"
    values: list[tuple[str, str, list[float | None]]] = [
        ("rps", "1/s", [result.rps for result in results]),
        ("episodes_per_min", "1/min", [result.episodes_per_min for result in results]),
        ("hit_after_warm_up", "share", [result.hit_after_warm_up for result in results]),
        ("jain", "index", [result.jain for result in results]),
        ("door_wait_p99", "s", [result.door_wait_s.get("p99") for result in results]),
    ]
    return [
        seed_row(name, quantity, unit, None, per_seed, variant=cell.policy)
        for quantity, unit, per_seed in values
    ]


def _share_rows(mix: Mix, found: Found) -> list[Row]:
    """Ours over the best cap, and its worst run; judged by what was set as the goal."""
    best = best_cap(mix, found)
    rows = []
    for policy in (OURS, OURS_MISLED):
        runs = found[mix.name, policy]
        name = f"{mix.name}_N{NUM_ROBOTS}"
        for quantity, _ in QUANTITIES:
            share = _mean(runs, quantity) / _mean(found[mix.name, best], quantity)
            note = f"goal: at least {mix.needed_share}; the best is {best}"
            rows.append(
                Row(
                    name,
                    f"{quantity}_of_best_cap",
                    "",
                    (mix.needed_share, None),
                    share,
                    note=note,
                    variant=policy,
                    within=0.0,
                )
            )
        lowest = min(run.hit_after_warm_up or 0.0 for run in runs)
        rows.append(
            Row(
                name,
                "lowest_hit_of_a_run",
                "share",
                (LEAST_HIT, None),
                lowest,
                note="goal; after the warm-up",
                variant=policy,
                within=0.0,
            )
        )
    return rows


def _fair_rows(mix: str, robots: int, result: ReplayResult) -> list[Row]:
    name = f"{mix}_N{robots}"
    minutes = result.duration_s / 60.0
    note = f"goal; {minutes:.0f} virtual minutes"
    is_long_enough = result.fewest_episodes >= FAIR_EPISODES
    return [
        Row(
            name,
            "jain",
            "index",
            (LEAST_JAIN, None),
            result.jain,
            note=note,
            variant=f"{OURS}, even",
            within=0.0 if is_long_enough else None,
        ),
        Row(
            name,
            "fewest_episodes",
            "",
            None,
            result.fewest_episodes,
            note=f"of a robot; {FAIR_EPISODES} or more make Jain's index mean something",
            variant=f"{OURS}, even",
        ),
        Row(
            name,
            "door_wait_p99",
            "s",
            None,
            result.door_wait_s.get("p99"),
            variant=f"{OURS}, even",
        ),
        Row(
            name,
            "hit_after_warm_up",
            "share",
            (LEAST_HIT, None),
            result.hit_after_warm_up,
            note=note,
            variant=f"{OURS}, even",
            within=0.0,
        ),
    ]


def best_cap(mix: Mix, found: Found) -> str:
    """The cap with most requests/s over all seeds."""
    caps = [policy for name, policy in found if name == mix.name and policy.startswith("static")]
    return max(caps, key=lambda policy: _mean(found[mix.name, policy], "rps"))


def _mean(results: Sequence[ReplayResult], quantity: str) -> float:
    mean = seed_mean([getattr(result, quantity) for result in results])
    assert mean is not None, quantity
    return mean.mean


def _table(mixes: Sequence[Mix], found: Found) -> str:
    """Markdown, the best cap marked."""
    lines = [
        "| mix | who lets in | requests/s | of best cap | episodes/min | of best cap "
        "| lowest hit of a run | Jain | P99 wait, s | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for mix in mixes:
        best = best_cap(mix, found)
        for (name, policy), runs in found.items():
            if name != mix.name:
                continue
            lowest = min(run.hit_after_warm_up or 0.0 for run in runs)
            waits = [run.door_wait_s.get("p99") for run in runs]
            known = [wait for wait in waits if wait is not None]
            wait = f"{sum(known) / len(known):.0f}" if known else "-"
            jain = sum(run.jain for run in runs) / len(runs)
            cells_ = [mix.name, f"**{policy}**" if policy == best else policy]
            for quantity, _ in QUANTITIES:
                mean = _mean(runs, quantity)
                share = mean / _mean(found[mix.name, best], quantity)
                cells_ += [f"{mean:.3f}", f"{100 * share:.1f}%"]
            cells_ += [f"{lowest:.4f}", f"{jain:.3f}", wait, str(len(runs))]
            lines.append("| " + " | ".join(cells_) + " |")
    return "\n".join(lines)


def _draw(workplace: Workplace, mixes: Sequence[Mix], found: Found) -> Picture:
    """Requests/s over the cap for each mix, with ours as lines."""
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(mixes), figsize=(3.4 * len(mixes) + 1, 3.6), layout="constrained", squeeze=False
    )
    for axis, mix in zip(axes[0], mixes, strict=True):
        caps = {
            int(policy.split()[-1]): runs
            for (name, policy), runs in found.items()
            if name == mix.name and policy.startswith("static")
        }
        for cap, runs in caps.items():
            axis.plot([cap] * len(runs), [run.rps for run in runs], ".", color="C0", alpha=0.4)
        order = sorted(caps)
        means = [_mean(caps[cap], "rps") for cap in order]
        axis.plot(order, means, "-", color="C0", label="static cap")
        for policy, color, style in ((OURS, "C1", "-"), (OURS_MISLED, "C3", "--")):
            axis.axhline(_mean(found[mix.name, policy], "rps"), color=color, ls=style, label=policy)
        axis.set_title(mix.name, fontsize=10)
        axis.set_xlabel("cap")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("requests/s")
    axes[0][0].legend(fontsize=8, loc="lower left")
    path = Path(workplace.folder) / "admission.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {path}")
    return Picture(path.name, "requests/s over the cap, and ours, which is told none")


CASE = Case(
    "admission: ours against the best static cap of a sweep and against other policies",
    8,
    run,
    quick_minutes=1.5,
)
