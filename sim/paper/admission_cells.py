"""The cells of the admission sweep: mixes of tasks, who lets them in, and with which seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sim.fleet.replay.runner import Job
from sim.fleet.replay.settings import AdmissionChoice, ReplaySettings, WorkloadChoice

OURS = "working-set"
#: Ours, told a pool that is larger by this.
TOLD_SHARE = 1.3
OURS_MISLED = f"{OURS}, told +30%"
#: Ours without its refreshing of prefixes: what that part of it is worth.
OURS_COOLING = f"{OURS}, no refresh"
#: Against which it is measured besides static caps.
OTHERS = ("aimd", "forecast-cap", "pause-resume", "unlimited")
#: ThunderAgent lets a paused program wait for half an hour.
PAUSE_S = 1800.0
#: The brain's load does not depend on how many robots wait, as long as some do: the door is first
#: in, first out, and the k-th that asks has the k-th trace. So each mix is swept with one fleet.
NUM_ROBOTS = 48
#: With these that is checked rather than believed: one run each of ours and of a good cap.
CHECKED_ROBOTS = (32, 96)
DURATION_S = 1800.0
#: Of a run that shows only that the machinery works.
QUICK_DURATION_S = 900.0
#: By number of robots: how long a fleet runs until each robot has eight episodes behind it, at
#: three quarters of the episodes a minute that the mix reaches.
FAIR_ROBOTS = (32, 48, 96)
FAIR_EPISODES = 8
#: Seeds of cells that are far from the best: they collapse or leave room, whatever the seed.
FEW_SEEDS = 3


@dataclass(frozen=True)
class Mix:
    """A mix of tasks and the caps that are tried on it.

    Attributes:
        caps: Those that were best in a first sweep of three seeds; they get all seeds.
        outer_caps: Between them and on both sides, so that the best is not missed; a few seeds.
        refreshed_caps: Tried with refreshes of prefixes as ours has them: what that is worth
            without our admission. No rivals of ours: a static cap of the field has no such thing.
        good_cap: One of `caps` that held in every run; what is checked with other fleets.
        full_robots: Fleets so small that all of them may be inside, which makes each another
            process: there every policy has runs of its own.
        episodes_per_min: About what it reaches; how long a fair comparison takes follows from it.
        needed_share: Of the best cap's throughput, which ours has to reach.
    """

    name: str
    workload: WorkloadChoice
    caps: tuple[int, ...]
    outer_caps: tuple[int, ...]
    refreshed_caps: tuple[int, ...]
    good_cap: int
    episodes_per_min: float
    full_robots: tuple[int, ...] = ()
    needed_share: float = 0.98


def _workload(mix: str = "all", order: Literal["shuffled", "suite"] = "shuffled") -> WorkloadChoice:
    return WorkloadChoice(mix, order)


STEADY = (
    Mix("all", _workload(), (24, 26), (22, 25, 27, 28), (30, 32), 26, 6.0),
    Mix("long", _workload("long"), (22,), (20, 23, 24), (24, 26), 22, 3.2),
    Mix("short", _workload("short"), (28, 30), (26, 29, 31, 32), (34, 36), 30, 8.0, (32,)),
)
#: Where the length of tasks changes while the fleet runs.
CHANGING = (
    Mix(
        "suite-order", _workload(order="suite"), (22, 24), (20, 25, 26), (28, 30), 24, 6.0, (), 1.02
    ),
    Mix("turning", _workload("turning"), (22,), (20, 23, 24), (24, 26), 22, 5.5, (), 1.02),
)
MIXES = (*STEADY, *CHANGING)


@dataclass(frozen=True)
class Cell:
    """One policy on one mix with one fleet.

    Attributes:
        policy: As a reader is told it: "static cap 24", "working-set".
        seeds: Of its runs. Cells that are compared share their first ones.
        is_check: It is run only to be set beside the same policy in the swept fleet.
        duration_s: Virtual time of each run.
    """

    mix: Mix
    policy: str
    admission: AdmissionChoice
    seeds: tuple[int, ...]
    num_robots: int = NUM_ROBOTS
    is_check: bool = False
    duration_s: float = DURATION_S

    @property
    def row(self) -> str:
        """The configuration's name in tables."""
        return f"{self.mix.name}_N{self.num_robots}"

    @property
    def is_cap(self) -> bool:
        """A static cap and nothing else."""
        return self.admission.policy == "static-cap" and not self.admission.settings.get("refresh")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """One for each seed."""
        settings = ReplaySettings.sustained(
            self.num_robots,
            admission=self.admission,
            workload=self.mix.workload,
            duration_s=self.duration_s,
        )
        return tuple(Job(settings, seed) for seed in self.seeds)


def cells(seeds: Sequence[int], *, is_full: bool) -> list[Cell]:
    """What is run: ours first, then caps, then the others.

    Args:
        seeds: Of the cells that decide; those that cannot win have the first `FEW_SEEDS` of them.
        is_full: All caps, all policies, all fleets; otherwise ours and the caps near the best.
    """
    every, few = tuple(seeds), tuple(seeds)[:FEW_SEEDS]
    found = []
    for mix in MIXES:
        found += _ours(mix, every, NUM_ROBOTS)
        cooling = AdmissionChoice(OURS, {"refresh": False})
        found.append(Cell(mix, OURS_COOLING, cooling, few))
    for mix in MIXES:
        for cap in sorted((*mix.caps, *mix.outer_caps) if is_full else mix.caps):
            found.append(_capped(mix, cap, every if cap in mix.caps else few))
    if not is_full:
        return found
    for mix in MIXES:
        for cap in mix.refreshed_caps:
            warm = AdmissionChoice("static-cap", {"cap": cap, "refresh": True})
            found.append(Cell(mix, f"{cap_name(cap)}, refreshed", warm, few))
    for mix in STEADY:
        for name in OTHERS:
            hold_s = PAUSE_S if name == "pause-resume" else 30.0
            found.append(Cell(mix, name, AdmissionChoice(name, max_turn_hold_s=hold_s), few))
        for robots in mix.full_robots:
            found += [*_ours(mix, every, robots), _capped(mix, robots, every, robots)]
        for robots in CHECKED_ROBOTS:
            checked = [_capped(mix, mix.good_cap, every[:1], robots)]
            if robots not in mix.full_robots:
                checked.append(Cell(mix, OURS, AdmissionChoice(OURS), every[:1], robots))
            found += [replace(cell, is_check=True) for cell in checked]
    return found


def quick_cells(seeds: Sequence[int]) -> list[Cell]:
    """The least that shows how the comparison is made: one mix, two caps, short runs."""
    mix = STEADY[0]
    few = tuple(seeds)
    found = [*_ours(mix, few, NUM_ROBOTS), *(_capped(mix, cap, few) for cap in mix.caps[::2])]
    return [replace(cell, duration_s=QUICK_DURATION_S) for cell in found]


def fair_jobs(seed: int) -> dict[tuple[str, int], Job]:
    """Ours on steady mixes, long enough for each robot to have done several episodes."""
    jobs = {}
    for mix in STEADY:
        for robots in FAIR_ROBOTS:
            minutes = FAIR_EPISODES * robots / (0.75 * mix.episodes_per_min)
            settings = ReplaySettings.sustained(
                robots,
                admission=AdmissionChoice(OURS),
                workload=mix.workload,
                duration_s=60.0 * round(minutes),
            )
            jobs[mix.name, robots] = Job(settings, seed)
    return jobs


def cap_name(cap: int) -> str:
    """What a reader is told."""
    return f"static cap {cap}"


def _ours(mix: Mix, seeds: tuple[int, ...], robots: int) -> list[Cell]:
    misled = AdmissionChoice(OURS, told_pool_share=TOLD_SHARE)
    return [
        Cell(mix, OURS, AdmissionChoice(OURS), seeds, robots),
        Cell(mix, OURS_MISLED, misled, seeds, robots),
    ]


def _capped(mix: Mix, cap: int, seeds: tuple[int, ...], robots: int = NUM_ROBOTS) -> Cell:
    return Cell(mix, cap_name(cap), AdmissionChoice("static-cap", {"cap": cap}), seeds, robots)
