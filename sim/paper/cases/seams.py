"""How rough the seams between chunks are, when chunks take time and are merged in different ways.

Real LIBERO episodes, the flow policy with its noise drawn anew for every chunk, and the SDK's own
control loop, buffer and request timing in virtual time: the world moves one step a tick, and a
chunk asked for at step s arrives exactly `delay` ticks later. Nothing here depends on how fast this
machine is, so the same command gives the same figures.

At a seam the first row of a newer chunk has a say. Of the commanded velocity of the end effector
(an action of 1 is 0.05 m in a control step, 1 m/s at 20 Hz) the figures are

    jump    |v[t] - v[t-1]| at a seam t, m/s
    jerk    the largest |v[t+1] - 2 v[t] + v[t-1]| * f^2 of those that contain the step over the
            seam, m/s^3

and the same between seams, where the policy alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import Tick
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.chunks import PolicyObservation
from robot_sdk.clock import VirtualClock
from robot_sdk.merging import MergeName
from robot_sdk.policy_source import ChunkRecord, PolicyResult, PolicySource
from robot_sdk.request_timing import RequestTiming
from robot_sdk.robot import Action
from robot_sdk.testing import VirtualControl, VirtualPolicyStream
from server.policy.flow.policy import FlowPolicy
from sim.libero.env import CONTROL_HZ, LiberoEnv
from sim.libero.policy_inputs import PICK_LIFT_M, PolicyTask
from sim.libero.robot import LiberoRobot
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.rows import Row

SUITE = "libero_object_swap"
TASKS = (0, 1, 2, 3, 4)
INIT_INDEX = 0
MERGES: tuple[MergeName, ...] = get_args(MergeName)
DELAYS_TICKS = (0, 1, 2, 3, 4, 5)
QUICK_TASKS = (0,)
QUICK_DELAYS_TICKS = (0, 3)
#: Of one attempt to pick the object up.
MAX_STEPS = 140
NOISE_SEED = 7
#: Of the drawn example.
EXAMPLE_DELAY_TICKS = 3
EXAMPLE_TASK = 0

#: Commanded metres per second for an action of 1.
_SPEED_M_PER_S = 0.05 * CONTROL_HZ
_LABELS: Mapping[MergeName, str] = {
    "replace": "replace",
    "linear_blend": "blend",
    "temporal_ensemble": "ensemble",
}


@dataclass(frozen=True)
class Episode:
    """One attempt to pick an object up.

    Attributes:
        speeds: Commanded velocity of the end effector by step, (steps, 3), m/s; NaN where the robot
            held for want of a row.
        seams: Steps at which a newer chunk first has a say, the first chunk's left out.
    """

    task: int
    merge: MergeName
    delay_ticks: int
    speeds: NDArray[np.float64]
    seams: tuple[int, ...]
    steps: int
    picked: bool
    starved_ticks: int


class _Recorded:
    """Passes commands on to the simulator and keeps them."""

    def __init__(self, robot: LiberoRobot) -> None:
        self._robot = robot
        self.control_hz = robot.control_hz
        self.action_dim = robot.action_dim
        self.observe = robot.observe
        self.speeds: list[NDArray[np.float64]] = []

    def act(self, action: Action) -> None:
        self.speeds.append(_SPEED_M_PER_S * action[:3].astype(np.float64))
        self._robot.act(action)

    def hold(self) -> None:
        self.speeds.append(np.full(3, np.nan))
        self._robot.hold()


def run(workplace: Workplace) -> None:
    """Leaves seams.json and seams.png."""
    tasks = QUICK_TASKS if workplace.quick else TASKS
    delays = QUICK_DELAYS_TICKS if workplace.quick else DELAYS_TICKS
    jobs = [(task, delays) for task in tasks]
    episodes = [item for part in workplace.map(play_task, jobs, "tasks") for item in part]
    figures = [
        row_of([e for e in episodes if (e.merge, e.delay_ticks) == (merge, delay)])
        for merge in MERGES
        for delay in delays
    ]
    picture = Picture("seams.png", "jump and jerk at seams, by merge and delay")
    _draw(workplace, figures, episodes, picture.file)
    workplace.write_case(
        "seams",
        [row for line in figures for row in report_rows(line)],
        settings={
            "suite": SUITE,
            "tasks": tasks,
            "init": INIT_INDEX,
            "noise_seed": NOISE_SEED,
            "max_steps": MAX_STEPS,
            "delays_ticks": delays,
        },
        pictures=[picture],
        notes=[
            "Real LIBERO physics and the flow policy; only the delay of a chunk is modelled. The "
            "study has no such figure; the rows are ours alone."
        ],
        figures=figures,
        episodes=[
            {k: v for k, v in asdict(e).items() if k not in ("speeds", "seams")}
            | {"seams": len(e.seams)}
            for e in episodes
        ],
    )
    for line in figures:
        workplace.say(_line(line))


def report_rows(line: Mapping[str, Any]) -> list[Row]:
    """The report's rows of one merge and delay."""
    name = f"{line['merge']}_delay{line['delay_ticks']}"
    note = f"{line['seams']} seams, picked {line['picked']} of {line['episodes']}"
    return [
        Row(name, quantity, unit, None, line.get(quantity), note=note)
        for quantity, unit in (("jump_seam_p50", "m/s"), ("jerk_seam_p50", "m/s^3"))
    ]


def play_task(job: tuple[int, tuple[int, ...]]) -> list[Episode]:
    """Every merge with every delay on one task, from the same initial state."""
    task_index, delays = job
    policy = FlowPolicy.load()
    with LiberoEnv(SUITE, task_index, INIT_INDEX, gl="off") as env:
        return [
            _play(env, policy, task_index, merge, delay) for merge in MERGES for delay in delays
        ]


def _play(
    env: LiberoEnv, policy: FlowPolicy, task_index: int, merge: MergeName, delay: int
) -> Episode:
    env.reset()
    name = next(goal.arguments[0] for goal in env.goals if goal.predicate in ("in", "on"))
    clock = VirtualClock()
    simulated = LiberoRobot(env, clock)
    simulated.target = PolicyTask(env, name, None)
    robot = _Recorded(simulated)
    start_m = float(env.geometry.pose(name).position[2])

    def answer(item: PolicyObservation) -> NDArray[np.float32]:
        return policy.infer(item.observation.tensors, [_noise_seed(item.sequence)])[0]

    def lifted(_: Tick) -> str | None:
        risen_m = float(env.geometry.pose(name).position[2]) - start_m
        return "lifted" if risen_m > PICK_LIFT_M / 2 and env.held_object() == name else None

    spec = policy.spec()
    records: list[ChunkRecord] = []
    control = VirtualControl(robot, clock, guard=ActionGuard.from_spec(spec))
    source = PolicySource(
        VirtualPolicyStream(spec, clock, answer=answer, latency_s=delay / CONTROL_HZ),
        ChunkBuffer(merge),
        RequestTiming.from_spec(spec),
        max_steps=MAX_STEPS,
        stop_when=lifted,
        on_chunk=records.append,
    )
    ended = control.finish(control.submit(source))
    if ended.error is not None:
        raise ended.error
    assert ended.report is not None
    assert isinstance(ended.report.result, PolicyResult)
    merged = [r.applied_step for r in records if r.applied_step is not None]
    return Episode(
        task=task_index,
        merge=merge,
        delay_ticks=delay,
        speeds=np.array(robot.speeds),
        seams=tuple(merged[1:]),
        steps=ended.report.result.steps,
        picked=ended.report.result.ended_by == "stop_when",
        starved_ticks=ended.report.starved_ticks,
    )


def _noise_seed(sequence: int) -> int:
    """Another draw for every chunk, the same in every run; 0 would be no noise."""
    return 1000 * NOISE_SEED + sequence + 1


def jumps_and_jerks(
    speeds: NDArray[np.float64], seams: Iterable[int]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Jump at every seam and at every step between seams, and jerk likewise.

    Args:
        speeds: (steps, 3), m/s; NaN where there was no command.
        seams: Steps over which, from the one before, another chunk has its first say.

    Returns:
        Jumps [m/s] and jerks [m/s^3], each under "seam" and "between". A step beside one without a
        command is left out.
    """
    jumps: dict[str, list[float]] = {"seam": [], "between": []}
    jerks: dict[str, list[float]] = {"seam": [], "between": []}
    at = set(seams)
    first = np.linalg.norm(np.diff(speeds, axis=0), axis=1)
    second = np.linalg.norm(np.diff(speeds, n=2, axis=0), axis=1) * CONTROL_HZ**2
    for step in range(1, len(speeds)):
        # second[i] is centred on step i + 1; those centred on step - 1 and on step contain the
        # difference over this step.
        near = [second[i] for i in (step - 2, step - 1) if 0 <= i < len(second)]
        near = [value for value in near if np.isfinite(value)]
        kind = "seam" if step in at else "between"
        if np.isfinite(first[step - 1]):
            jumps[kind].append(float(first[step - 1]))
        # Steps next to a seam are neither: their jerk is the seam's.
        if near and (kind == "seam" or not at & {step - 1, step + 1}):
            jerks[kind].append(float(max(near)))
    return jumps, jerks


def row_of(episodes: Sequence[Episode]) -> dict[str, Any]:
    """All seams of one merge with one delay."""
    jumps: dict[str, list[float]] = {"seam": [], "between": []}
    jerks: dict[str, list[float]] = {"seam": [], "between": []}
    for episode in episodes:
        more_jumps, more_jerks = jumps_and_jerks(episode.speeds, episode.seams)
        for kind in jumps:
            jumps[kind] += more_jumps[kind]
            jerks[kind] += more_jerks[kind]
    figures = {
        f"{name}_{kind}_{quantile}": round(float(np.percentile(values, percent)), 4)
        for name, total in (("jump", jumps), ("jerk", jerks))
        for kind, values in total.items()
        for quantile, percent in (("p50", 50), ("p90", 90))
        if values
    }
    return {
        "merge": episodes[0].merge,
        "delay_ticks": episodes[0].delay_ticks,
        "episodes": len(episodes),
        "picked": sum(episode.picked for episode in episodes),
        "starved_ticks": sum(episode.starved_ticks for episode in episodes),
        "seams": len(jumps["seam"]),
        **figures,
    }


def _line(row: Mapping[str, Any]) -> str:
    return (
        f"{_LABELS[row['merge']]:9} delay {row['delay_ticks']} ticks: "
        f"jump {row['jump_seam_p50']:.3f} m/s at seams ({row['jump_seam_p90']:.3f} p90), "
        f"{row['jump_between_p50']:.3f} between; jerk {row['jerk_seam_p50']:.0f} m/s^3 "
        f"({row['jerk_seam_p90']:.0f} p90), {row['jerk_between_p50']:.0f} between; "
        f"{row['seams']} seams, picked {row['picked']} of {row['episodes']}"
    )


def _draw(
    workplace: Workplace,
    rows: Sequence[Mapping[str, Any]],
    episodes: Sequence[Episode],
    file: str,
) -> None:
    plt = pyplot()
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.8), layout="constrained")
    for place, merge in enumerate(MERGES):
        mine = [row for row in rows if row["merge"] == merge]
        delays = [row["delay_ticks"] for row in mine]
        for axes, name in ((left, "jump"), (middle, "jerk")):
            color = f"C{place}"
            axes.plot(
                delays,
                [row[f"{name}_seam_p50"] for row in mine],
                marker="o",
                color=color,
                label=f"{_LABELS[merge]}, median",
            )
            axes.plot(
                delays,
                [row[f"{name}_seam_p90"] for row in mine],
                linestyle="--",
                color=color,
                label=f"{_LABELS[merge]}, 90%",
            )
    replace = [row for row in rows if row["merge"] == "replace"]
    for axes, name, unit in ((left, "jump", "m/s"), (middle, "jerk", "m/s³")):
        axes.plot(
            [row["delay_ticks"] for row in replace],
            [row[f"{name}_between_p50"] for row in replace],
            color="0.5",
            linestyle=":",
            label="between seams (replace), median",
        )
        axes.set(
            xlabel="delay of a chunk [control steps of 50 ms]",
            ylabel=f"{name} [{unit}]",
            title=f"{name} at seams",
            ylim=(0, None),
        )
        axes.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=8)
    _draw_example(right, episodes)
    num_tasks = len({episode.task for episode in episodes})
    figure.suptitle(
        f"Seams of the flow policy, {num_tasks} LIBERO-PRO tasks ({SUITE}), modelled delay"
    )
    path = workplace.folder / file
    figure.savefig(path, dpi=130)
    plt.close(figure)
    workplace.say(f"wrote {path}")


def _draw_example(axes: Any, episodes: Sequence[Episode]) -> None:
    """Vertical speed of one episode under each merge, one above the other."""
    apart_m_per_s = 1.2
    for place, merge in enumerate(MERGES):
        episode = next(
            e
            for e in episodes
            if (e.task, e.merge, e.delay_ticks) == (EXAMPLE_TASK, merge, EXAMPLE_DELAY_TICKS)
        )
        base = -apart_m_per_s * place
        times_s = np.arange(len(episode.speeds)) / CONTROL_HZ
        axes.step(
            times_s, base + episode.speeds[:, 2], where="post", color=f"C{place}", linewidth=1
        )
        seams = [step for step in episode.seams if step < len(episode.speeds)]
        axes.plot(
            np.array(seams) / CONTROL_HZ,
            base + episode.speeds[seams, 2],
            linestyle="none",
            marker=".",
            color=f"C{place}",
            label=f"{_LABELS[merge]} (shifted by {base:g})" if place else _LABELS[merge],
        )
    axes.set(
        xlabel="time [s]",
        ylabel="commanded vertical velocity [m/s]",
        title=f"task {EXAMPLE_TASK}, delay {EXAMPLE_DELAY_TICKS} steps; dots: seams",
    )
    axes.legend(fontsize=7, loc="upper left")
    axes.grid(alpha=0.3)


CASE = Case(
    "jump and jerk at the seams between chunks, by delay and merge", 1.2, run, quick_minutes=0.2
)
