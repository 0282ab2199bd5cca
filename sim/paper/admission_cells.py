"""The cells of the admission sweep: mixes of tasks, and who lets them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sim.fleet.replay.runner import Job
from sim.fleet.replay.settings import AdmissionChoice, ReplaySettings, WorkloadChoice

OURS = "working-set"
#: Ours, told a pool that is larger by this.
TOLD_SHARE = 1.3
OURS_MISLED = f"{OURS}, told +30%"
#: Against which it is measured besides static caps.
OTHERS = ("aimd", "forecast-cap", "pause-resume", "unlimited")
#: ThunderAgent lets a paused program wait for half an hour.
PAUSE_S = 1800.0
#: The brain's load does not depend on how many robots wait, as long as some do: the door is first
#: in, first out, and the k-th that asks has the k-th trace. So each mix is run with one fleet.
NUM_ROBOTS = 48
DURATION_S = 1800.0
#: By number of robots: how long a fleet runs until each robot has eight episodes behind it, at
#: three quarters of the episodes a minute that the mix reaches.
FAIR_ROBOTS = (32, 48, 96)
FAIR_EPISODES = 8


@dataclass(frozen=True)
class Mix:
    """A mix of tasks and the caps that are tried on it.

    Attributes:
        caps: All of the full sweep; each end loses, so that the best lies inside.
        few_caps: Of a short run: those around the best.
        episodes_per_min: About what it reaches; how long a fair comparison takes follows from it.
        needed_share: Of the best cap's throughput, which ours has to reach.
    """

    name: str
    workload: WorkloadChoice
    caps: tuple[int, ...]
    few_caps: tuple[int, ...]
    episodes_per_min: float
    needed_share: float


def _mix(
    name: str,
    mix: str,
    order: Literal["shuffled", "suite"],
    caps: Sequence[int],
    few_caps: Sequence[int],
    episodes_per_min: float,
    needed_share: float = 0.98,
) -> Mix:
    return Mix(
        name,
        WorkloadChoice(mix, order),
        tuple(caps),
        tuple(few_caps),
        episodes_per_min,
        needed_share,
    )


STEADY = (
    _mix("all", "all", "shuffled", range(20, 29, 2), (22, 24, 26), 6.0),
    _mix("long", "long", "shuffled", range(18, 27, 2), (20, 22, 24), 3.2),
    _mix("short", "short", "shuffled", range(24, 33, 2), (26, 28, 30), 8.0),
)
#: Where the length of tasks changes while the fleet runs.
CHANGING = (
    _mix("suite-order", "all", "suite", range(20, 27, 2), (22, 24), 6.0, 1.02),
    _mix("turning", "turning", "shuffled", range(18, 25, 2), (20, 22), 5.5, 1.02),
)
MIXES = (*STEADY, *CHANGING)


@dataclass(frozen=True)
class Cell:
    """One policy on one mix.

    Attributes:
        policy: As a reader is told it: "static cap 24", "working-set".
        jobs: One for each seed.
    """

    mix: Mix
    policy: str
    jobs: tuple[Job, ...] = field(repr=False)


def cells(seeds: Sequence[int], *, is_full: bool, mixes: Sequence[Mix] = MIXES) -> list[Cell]:
    """What is run. Ours comes first, then caps, then the others, so that a sweep that is broken
    off has said something.
    """
    found = []
    for mix in mixes:
        found.append(_cell(mix, OURS, AdmissionChoice(OURS), seeds))
        found.append(
            _cell(mix, OURS_MISLED, AdmissionChoice(OURS, told_pool_share=TOLD_SHARE), seeds)
        )
    for mix in mixes:
        for cap in mix.caps if is_full else mix.few_caps:
            choice = AdmissionChoice("static-cap", {"cap": cap})
            found.append(_cell(mix, cap_name(cap), choice, seeds))
    for mix in STEADY if is_full else ():
        for name in OTHERS:
            hold_s = PAUSE_S if name == "pause-resume" else 30.0
            choice = AdmissionChoice(name, max_turn_hold_s=hold_s)
            found.append(_cell(mix, name, choice, seeds))
    return found


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


def _cell(mix: Mix, policy: str, choice: AdmissionChoice, seeds: Sequence[int]) -> Cell:
    settings = ReplaySettings.sustained(
        NUM_ROBOTS, admission=choice, workload=mix.workload, duration_s=DURATION_S
    )
    return Cell(mix, policy, tuple(Job(settings, seed) for seed in seeds))
