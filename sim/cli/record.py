"""One line of a run's result file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from robot_sdk.results import ClockSample, EpisodeResult
from robot_sdk.trace.stats import Summary
from sim.cli.plan import Job
from sim.libero.env import CONTROL_HZ
from sim.libero.robot import LiberoRobot


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode of a run. Steps are control steps, times seconds.

    Attributes:
        reason: One word: why it ended, or why it does not count as a success.
        steps: Control steps with a tool running, held ones included; `policy_steps` +
            `scripted_steps`.
        acted_steps: Those with an action; in the others the robot was held.
        policy_share: Share of `steps` during which the policy was in charge. None: no steps.
        success_step: Step after which LIBERO's goal first held. None: never.
        success_at_end: Whether it held when the episode ended. None: unknown.
        grasps: Who grasped what, and when.
        duration_s: From admission to the end. None: it was never admitted, or broke.
        wall_time_s: The same with building the environment, waiting at the door and making films.
        clocks_s: Quantiles of the three clocks in seconds, under the names that the trace command
            uses: "brain_latency", "env_step_gap" (steps with a tool running, held ones included,
            divided by the control rate) and "wall_clock_gap".
        zero_step_intervals: Intervals between brain calls in which no tool took a step.
        turns: Per turn: brain latency, env-step gap in steps, wall-clock gap.
        files: Films, by kind.
    """

    suite: str
    task: int
    init: int
    success: bool
    reason: str
    detail: str
    wall_time_s: float
    outcome: str = "aborted"
    language: str = ""
    episode_id: str = ""
    duration_s: float | None = None
    steps: int = 0
    acted_steps: int = 0
    policy_steps: int = 0
    scripted_steps: int = 0
    policy_share: float | None = None
    brain_turns: int = 0
    invalid_calls: int = 0
    chunks: int = 0
    starved_ticks: int = 0
    start_wait_ticks: int = 0
    idle_ticks: int = 0
    overrun_ticks: int = 0
    queued_s: float = 0.0
    success_step: int | None = None
    success_at_end: bool | None = None
    grasps: Sequence[Mapping[str, Any]] = ()
    clocks_s: Mapping[str, Any] = field(default_factory=dict)
    zero_step_intervals: int = 0
    turns: Sequence[Sequence[float | None]] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        """The episode it tells about."""
        return Job(self.suite, self.task, self.init)

    @property
    def has_verdict(self) -> bool:
        """Whether it ran to a success or a failure; if not, it says nothing about the task."""
        return self.outcome != "aborted"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def record_of(
    job: Job,
    robot: LiberoRobot,
    result: EpisodeResult,
    wall_time_s: float,
    files: Mapping[str, str],
) -> EpisodeRecord:
    """The record of an episode that was admitted. The simulator must not be running any more."""
    steps = result.env_steps
    return EpisodeRecord(
        suite=job.suite,
        task=job.task_index,
        init=job.init_index,
        success=result.success,
        reason=result.reason,
        detail=result.detail,
        wall_time_s=wall_time_s,
        outcome=result.outcome,
        language=robot.env.language,
        episode_id=result.episode_id,
        duration_s=result.duration_s,
        steps=steps,
        acted_steps=result.acted_steps,
        policy_steps=result.policy_steps,
        scripted_steps=result.scripted_steps,
        policy_share=result.policy_steps / steps if steps else None,
        brain_turns=result.turns,
        invalid_calls=result.invalid_calls,
        chunks=result.chunks,
        starved_ticks=result.starved_ticks,
        start_wait_ticks=result.start_wait_ticks,
        idle_ticks=result.idle_ticks,
        overrun_ticks=result.overrun_ticks,
        queued_s=result.queued_s,
        success_step=robot.success_step,
        success_at_end=robot.env.success(),
        grasps=[asdict(grasp) for grasp in robot.grasps.grasps],
        clocks_s=clock_quantiles(result.samples),
        zero_step_intervals=zero_step_intervals(result.samples),
        turns=[[sample.brain_s, sample.gap_steps, sample.gap_wall_s] for sample in result.samples],
        files=files,
    )


def failed_record(job: Job, reason: str, detail: str, wall_time_s: float = 0.0) -> EpisodeRecord:
    """The record of an episode that never ran to an end of its own."""
    return EpisodeRecord(
        suite=job.suite,
        task=job.task_index,
        init=job.init_index,
        success=False,
        reason=reason,
        detail=detail,
        wall_time_s=wall_time_s,
    )


def clock_quantiles(samples: Iterable[ClockSample]) -> dict[str, Any]:
    """The three clocks: count, median, P90, P99 and maximum of each, seconds."""
    samples = list(samples)
    gaps = [sample.gap_steps for sample in samples if sample.gap_steps is not None]
    walls = [sample.gap_wall_s for sample in samples if sample.gap_wall_s is not None]
    return {
        "brain_latency": _quantiles([sample.brain_s for sample in samples]),
        "env_step_gap": _quantiles([steps / CONTROL_HZ for steps in gaps]),
        "wall_clock_gap": _quantiles(walls),
    }


def zero_step_intervals(samples: Iterable[ClockSample]) -> int:
    """Intervals in which no tool took a step."""
    return sum(sample.gap_steps == 0 for sample in samples)


def _quantiles(values: Sequence[float]) -> dict[str, float | int | None]:
    """As the trace command's, but for the total: a run's lines are not added up."""
    found = asdict(Summary.of(values))
    del found["total"]
    return found
