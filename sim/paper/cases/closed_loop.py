"""Whether the task still gets done, and when: real episodes under the delays of a loaded box.

The study replays traces, so it cannot say what its latencies do to a task. Here real LIBERO-PRO
episodes run in the fleet's virtual time: each brain turn takes what a replay of that fleet gives,
each chunk what the action tier gives, and the world goes on meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from server.launch.server_process import ServerProcess
from sim.closed_loop.batch import SERVER_SETTINGS, TaskBatch, Trial, run_batch
from sim.closed_loop.chunk_load import AT_ONCE, ChunkLoad
from sim.closed_loop.delays import NO_DELAYS, EpisodeDelays, draw
from sim.closed_loop.episode import MAX_ENV_STEPS, ClosedLoopRecord
from sim.closed_loop.outcome import Outcome, outcome
from sim.closed_loop.resting import REST_CHANGE, REST_CHANGE_HOLDING, WATCHED_STEPS
from sim.fleet.replay.result import EpisodeTimes, ReplayResult
from sim.fleet.replay.runner import Job
from sim.fleet.replay.settings import AdmissionChoice, EngineChoice, ReplaySettings
from sim.paper import study
from sim.paper.case import Case, Picture, Workplace
from sim.paper.plot import pyplot
from sim.paper.rows import Row

NAME = "closed-loop"
SUITE = "libero_object_swap"
ADMISSIONS: dict[str, AdmissionChoice] = {
    "none": AdmissionChoice("unlimited"),
    "K16": AdmissionChoice("static-cap", {"cap": 16}),
    "K20": AdmissionChoice("static-cap", {"cap": 20}),
    "ours": AdmissionChoice("working-set"),
}
IN_WORDS = {
    "none": "no admission",
    "K16": "static cap 16",
    "K20": "static cap 20",
    "ours": "working set (ours)",
}
#: Fleets whose brain turns are looked at: robots by admission. At N=20 and below no cap matters.
FLEETS = {"none": (8, 20, 24, 32, 48), "K16": (32,), "K20": (48,), "ours": (32, 48)}
QUICK_FLEETS = {"none": (20, 32)}
#: Robots that run the policy all at once on one GPU at 20 Hz, by discipline.
CHUNK_SIZES = (1, 7, 16)
QUICK_CHUNK_SIZES = (7,)
DISCIPLINES = {"paced": "paced (ours)", "prefetch": "unpaced"}
TASKS = range(10)
QUICK_TASKS = range(1, 2)
#: An episode says how long turns take there if it has had so many; with fewer such episodes of the
#: suite, those of all suites are drawn from.
_LEAST_TURNS = 3
_LEAST_EPISODES = 8


@dataclass(frozen=True)
class Condition:
    """What an episode goes through.

    Attributes:
        name: Of its rows.
        robots: In the fleet, or with the policy running.
        admission: Key of `ADMISSIONS`; empty: chunks alone are late.
        discipline: Of the action tier.
        episodes: Delays are drawn from these.
    """

    name: str
    robots: int
    discipline: str
    load: ChunkLoad
    admission: str = ""
    episodes: tuple[EpisodeDelays, ...] = (NO_DELAYS,)
    turn_s: float | None = None
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def trial(self, task: int, init: int) -> Trial:
        """One episode of it. Its fleet differs from task to task."""
        delays = draw(self.episodes, self.name, task, init)
        return Trial(self.name, init, delays, self.load, seed=1000 * task + init)


def run(workplace: Workplace) -> None:
    """Leaves closed-loop.json, closed-loop.png and, to go on from, a file of episodes per task."""
    fleets = QUICK_FLEETS if workplace.quick else FLEETS
    conditions = [*chunk_conditions(workplace.quick), *fleet_conditions(workplace, fleets)]
    records = _run_episodes(workplace, conditions)
    outcomes = {condition.name: outcome(records[condition.name]) for condition in conditions}
    picture = Picture(f"{NAME}.png", "task success and time to success against load, closed loop")
    _draw(workplace, picture.file, conditions, outcomes)
    rows = [row for c in conditions for row in rows_of(c, outcomes[c.name])]
    for line in table(conditions, outcomes):
        workplace.say(line)
    workplace.write_case(
        NAME,
        rows,
        settings=_settings(workplace),
        pictures=[picture],
        notes=_NOTES,
        conditions=[
            {
                "name": condition.name,
                "robots": condition.robots,
                "admission": condition.admission,
                "load": {**asdict(condition.load), "table": condition.load.table.measured_on},
                **condition.about,
                **asdict(outcomes[condition.name]),
            }
            for condition in conditions
        ],
        episodes={name: [asdict(record) for record in of] for name, of in records.items()},
    )


_NOTES = [
    "Real: the simulator's physics in every control step that is computed, the SDK's control loop, "
    "chunk buffer and request timing, the agent loop, the tools, and the server, which decides and "
    "infers over gRPC. Virtual: how long a turn and a chunk take in the robot's world. No virtual "
    "time reaches gRPC.",
    "Stand-ins: the brain is the rule-based planner (17 turns where nothing goes wrong, as many as "
    "the study's median on this suite), the policy a small flow network that sees where objects "
    "are. Turns take what the study's model would; chunks what pi0.5 would, by its published "
    "latency table. Another brain or policy may bear delays better or worse.",
    "A robot that waits for its brain holds, and the world goes on: a squeezed object creeps in "
    "the simulator's contact model and may slip. Holds at rest are counted and not computed.",
]


def chunk_conditions(quick: bool) -> list[Condition]:
    """Chunks alone are late; the brain answers at once."""
    sizes = QUICK_CHUNK_SIZES if quick else CHUNK_SIZES
    at_once = Condition("no_delay", 1, "paced", ChunkLoad("paced", 0, table=AT_ONCE))
    return [
        at_once,
        *(
            Condition(f"chunks{size}_{name}", size, name, ChunkLoad(name, size - 1))
            for name in DISCIPLINES
            for size in sizes
        ),
    ]


def fleet_conditions(workplace: Workplace, fleets: Mapping[str, Sequence[int]]) -> list[Condition]:
    """Turns take what replays of these fleets give, and chunks what such a fleet asks for."""
    seeds = workplace.seeds(1, 1)
    wanted = [(admission, size) for admission, sizes in fleets.items() for size in sizes]
    jobs = [
        Job(_replay(workplace, admission, size), seed)
        for admission, size in wanted
        for seed in seeds
    ]
    results = workplace.replays(jobs, "replays")
    return [
        _fleet_condition(admission, size, results[place * len(seeds) : (place + 1) * len(seeds)])
        for place, (admission, size) in enumerate(wanted)
    ]


def _replay(workplace: Workplace, admission: str, size: int) -> ReplaySettings:
    version = workplace.engine_versions[0]
    settings = ReplaySettings.sustained(
        size,
        admission=ADMISSIONS[admission],
        engine=EngineChoice(version, retention_tokens=None if version == "study" else 0),
    )
    if not workplace.quick:
        return settings
    return ReplaySettings.sustained(
        size,
        admission=settings.admission,
        engine=settings.engine,
        duration_s=720.0,
        warm_up_s=300.0,
    )


def _fleet_condition(admission: str, size: int, results: Sequence[ReplayResult]) -> Condition:
    warm_up_s = ReplaySettings.warm_up_s
    suite_alone, episodes = delays_of(results, warm_up_s)
    turns_s = [turn_s for episode in episodes for turn_s in episode.turn_latencies_s]
    mean_turn_s = sum(turns_s) / len(turns_s)
    windows = [w for result in results for w in result.windows if w.start_s >= warm_up_s]
    active = sum(window.num_active for window in windows) / len(windows)
    name = f"N{size}" if admission == "none" else f"N{size}_{admission}"
    hits = [r.hit_after_warm_up for r in results if r.hit_after_warm_up is not None]
    return Condition(
        name,
        size,
        "paced",
        shared_tier(round(active) - 1, mean_turn_s),
        admission,
        episodes,
        mean_turn_s,
        {
            "replayed_episodes": len(episodes),
            "replayed_episodes_are_of": SUITE if suite_alone else "all suites",
            "mean_turn_s": mean_turn_s,
            "mean_active": active,
            "hit_after_warm_up": sum(hits) / len(hits) if hits else None,
        },
    )


def delays_of(
    results: Sequence[ReplayResult], warm_up_s: float
) -> tuple[bool, tuple[EpisodeDelays, ...]]:
    """What episodes went through that were admitted after the warm-up, and whether all of them are
    of this suite. In a fleet that lets few in, of all suites, and if need be from the beginning.
    """
    found = [times for result in results for times in result.episode_times]
    enough = [times for times in found if len(times.turn_latencies_s) >= _LEAST_TURNS]
    late = [times for times in enough if times.asked_s + times.door_wait_s >= warm_up_s]
    of_suite = [times for times in late if times.task_family == SUITE]
    for is_suite, some in ((True, of_suite), (False, late), (False, enough)):
        if len(some) >= _LEAST_EPISODES:
            return is_suite, _delays(some)
    return False, _delays(enough)


def _delays(times: Sequence[EpisodeTimes]) -> tuple[EpisodeDelays, ...]:
    return tuple(EpisodeDelays(one.door_wait_s, one.turn_latencies_s) for one in times)


def shared_tier(num_others: int, mean_turn_s: float) -> ChunkLoad:
    """The action tier of one GPU that the robots of such a fleet share.

    A robot's policy tool runs for the study's chunks per tool entry; until it runs again pass the
    study's turns per tool entry, each with its latency here and the robot's own time after it.
    """
    workload = study.value("workload")
    entries = workload["action_tool_entries"]
    running_s = workload["action_chunks"] / entries * 5 / 20.0
    turns = workload["brain_calls"] / entries
    own_s = workload["env_advance_total_s"] / workload["brain_calls"]
    pause_s = max(0.0, turns * (mean_turn_s + own_s) - running_s)
    return ChunkLoad("paced", max(0, num_others), running_s, pause_s)


def _run_episodes(
    workplace: Workplace, conditions: Sequence[Condition]
) -> dict[str, list[ClosedLoopRecord]]:
    tasks = QUICK_TASKS if workplace.quick else TASKS
    kept = workplace.folder / f"{NAME}-episodes"
    kept.mkdir(exist_ok=True)
    records: dict[str, list[ClosedLoopRecord]] = {c.name: [] for c in conditions}
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(SERVER_SETTINGS, Path(folder)) as server,
    ):
        # An environment takes seconds to build, so a task is shared out only if it has to be.
        parts = workplace.num_processes if len(tasks) < workplace.num_processes else 1
        batches = [
            TaskBatch(
                server.target,
                SUITE,
                task,
                tuple(condition.trial(task, 0) for condition in conditions[part::parts]),
                str(kept / (f"task{task}.jsonl" if parts == 1 else f"task{task}-{part}.jsonl")),
            )
            for task in tasks
            for part in range(parts)
        ]
        for done in workplace.map(run_batch, batches, "batches of episodes"):
            for trial in done:
                records[trial.condition].append(trial.record)
    return records


def rows_of(condition: Condition, found: Outcome) -> list[Row]:
    """Of one condition. The study has none of these."""
    interval = (
        f"{found.successes} of {found.episodes}; 95% interval {found.success_low:.2f} to "
        f"{found.success_high:.2f}"
    )
    first, median, third = found.success_s
    values: list[tuple[str, str, float | None, str]] = [
        ("success", "share", found.success_share, interval),
        ("success_time_p25", "s", first, "an episode without success counts as never"),
        ("success_time_p50", "s", median, "an episode without success counts as never"),
        ("success_time_p75", "s", third, "an episode without success counts as never"),
        ("starved_share", "share", found.starved_share, "of the policy's ticks"),
        ("brain_share", "share", found.brain_share, "of the time from admission to the end"),
        ("chunk_latency_p50", "s", found.chunk_latency_s, ""),
        ("turns_mean", "", found.turns, "17 where nothing has to be done again"),
    ]
    if condition.admission:
        values.append(("turn_latency_mean", "s", condition.turn_s, "of the replayed episodes"))
        values.append(("door_wait_p50", "s", found.door_wait_s[1], "not part of the times above"))
    return [
        Row(condition.name, quantity, unit, None, ours, kind="simulated", note=note)
        for quantity, unit, ours, note in values
    ]


def table(conditions: Sequence[Condition], outcomes: Mapping[str, Outcome]) -> list[str]:
    """Outcomes as lines of text."""
    heads = f"{'':17}{'success':>12}{'time to success':>22}{'brain':>7}{'starved':>9}{'door':>8}"
    lines = [heads]
    for condition in conditions:
        found = outcomes[condition.name]
        first, median, third = ("never" if s is None else f"{s:.0f}" for s in found.success_s)
        door_s = found.door_wait_s[1] or 0.0
        lines.append(
            f"{condition.name:17}{f'{found.successes} of {found.episodes}':>12}"
            f"{f'{median} s ({first}-{third})':>22}{found.brain_share:>7.0%}"
            f"{found.starved_share:>9.1%}{door_s:>6.0f} s"
        )
    return lines


def _settings(workplace: Workplace) -> dict[str, Any]:
    return {
        "suite": SUITE,
        "tasks": list(QUICK_TASKS if workplace.quick else TASKS),
        "inits": [0],
        "engine": workplace.engine_versions[0],
        "replay_seeds": list(workplace.seeds(1, 1)),
        "step_budget": MAX_ENV_STEPS,
        "chunks_alone": "all robots run the policy all the time at 20 Hz on one GPU with the "
        "study's latency table; nobody is refused",
        "fleets": "the other robots inside run the policy as often as the study's, between turns "
        "that take as long as in the replay; one GPU, paced",
        "turns": "an episode that the replayed fleet admitted after its warm-up is drawn, and its "
        "turns' latencies are taken in order",
        "holds_left_out": f"once no position changes by more than {REST_CHANGE:g} (m, rad) within "
        f"{WATCHED_STEPS} steps, {REST_CHANGE_HOLDING:g} with something in the fingers",
    }


_REFERENCE = {"color": "grey", "linestyle": "--", "linewidth": 1.0, "label": "no delay at all"}


def _draw(
    workplace: Workplace,
    file: str,
    conditions: Sequence[Condition],
    outcomes: Mapping[str, Outcome],
) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(12, 8.5), layout="constrained")
    (success, time), (chunk_success, chunk_time) = axes
    for offset, (admission, words) in enumerate(IN_WORDS.items()):
        line = [c for c in conditions if c.admission == admission]
        _success_line(success, line, outcomes, words, "os^D"[offset], 0.25 * offset)
        _time_line(time, line, outcomes, words, "os^D"[offset], 0.25 * offset)
    for offset, (discipline, words) in enumerate(DISCIPLINES.items()):
        line = [c for c in conditions if c.name.startswith("chunks") and c.discipline == discipline]
        _success_line(chunk_success, line, outcomes, words, "Do"[offset], 0.15 * offset)
        sizes = [c.robots + 0.15 * offset for c in line]
        starved = [100 * outcomes[c.name].starved_share for c in line]
        chunk_time.plot(sizes, starved, marker="Do"[offset], label=f"{words}: starved ticks")
    at_once = outcomes["no_delay"]
    for axis in (success, chunk_success):
        axis.axhline(100 * at_once.success_share, **_REFERENCE)
    if at_once.success_s[1] is not None:
        time.axhline(at_once.success_s[1], **_REFERENCE)
    for axis in (success, time):
        axis.set_xticks(sorted({c.robots for c in conditions if c.admission}))
        axis.set_xlabel("robots in the fleet (one brain of four H800, pool of 4,270 blocks)")
    for axis in (chunk_success, chunk_time):
        axis.set_xticks(sorted({c.robots for c in conditions if not c.admission}))
        axis.set_xlabel("robots that run the policy at 20 Hz on one GPU (brain answers at once)")
    for axis in (success, chunk_success):
        axis.set_ylim(-3, 103)
        axis.set_ylabel("task success [%], 95% interval")
    time.set_yscale("log")
    time.set_ylabel("time from admission to success [s], quartiles")
    chunk_time.set_ylabel("policy's ticks without a valid row [%]")
    success.set_title("Success against load")
    time.set_title("Time to success against load (door wait apart)")
    chunk_success.set_title("Late chunks alone: success")
    chunk_time.set_title("Late chunks alone: starvation")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    episodes = min(found.episodes for found in outcomes.values())
    figure.suptitle(
        f"Closed loop: {SUITE}, flow policy and rule-based planner; episodes a point: {episodes}"
    )
    figure.savefig(workplace.folder / file, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {workplace.folder / file}")


def _success_line(
    axis: Any,
    line: Sequence[Condition],
    outcomes: Mapping[str, Outcome],
    words: str,
    marker: str,
    shift: float,
) -> None:
    if not line:
        return
    found = [outcomes[condition.name] for condition in line]
    shares = [100 * one.success_share for one in found]
    below = [share - 100 * one.success_low for share, one in zip(shares, found, strict=True)]
    above = [100 * one.success_high - share for share, one in zip(shares, found, strict=True)]
    axis.errorbar(
        [condition.robots + shift for condition in line],
        shares,
        yerr=[[max(0.0, b) for b in below], [max(0.0, a) for a in above]],
        marker=marker,
        capsize=3,
        elinewidth=0.8,
        label=words,
    )


def _time_line(
    axis: Any,
    line: Sequence[Condition],
    outcomes: Mapping[str, Outcome],
    words: str,
    marker: str,
    shift: float,
) -> None:
    points = []
    for condition in line:
        first, median, third = outcomes[condition.name].success_s
        if first is not None and median is not None:
            # A third quartile of "never" is an arrow out of the picture.
            points.append((condition.robots + shift, first, median, third))
    if not points:
        return
    sizes, _, medians, _ = zip(*points, strict=True)
    (drawn,) = axis.plot(sizes, medians, marker=marker, label=words)
    for size, first, median, third in points:
        top = third if third is not None else median * 4
        axis.plot([size, size], [first, top], color=drawn.get_color(), linewidth=0.8)
        if third is None:
            axis.plot([size], [top], marker=6, color=drawn.get_color(), markersize=7)


CASE = Case(
    "task success and time to success of real episodes against load, with and without admission",
    9,
    run,
    quick_minutes=0.9,
    uses_study_engine=True,
)
