"""Runs a whole episode: admission, control loop, agent, tools, traces, end.

client = robot_sdk.connect("server:50051")
task = "pick up the milk and place it in the basket"
result = run_episode(client, robot, lambda running: ToolRegistry(MyTools(running)), task)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import Pace
from robot_sdk.agent import DEFAULT_SYSTEM_PROMPT, Agent, AgentLimits
from robot_sdk.client import Client
from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.control import ControlLoop
from robot_sdk.episode import Episode, QueueUpdate
from robot_sdk.episode_trace import EpisodeTrace
from robot_sdk.loop_state import LoopState
from robot_sdk.messages import ImagePart
from robot_sdk.results import AgentEnd, EpisodeResult, Outcome, Verdict
from robot_sdk.robot import Robot, check_robot
from robot_sdk.robot_state import RobotState
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.telemetry import (
    AttributeValue,
    OpenSpan,
    Telemetry,
    TickMetrics,
    attributes,
    no_telemetry,
    spans,
    trace_context,
)
from robot_sdk.tools import ToolRegistry


@dataclass(frozen=True)
class EpisodeOptions:
    """How an episode is run. Everything has a default.

    Attributes:
        robot_id: Who the robot is; shown to operators.
        embodiment: Kind of robot.
        run_id: Groups episodes of one experiment.
        task_family: Kind of task; admission forecasts context growth per family.
        seed: Seed of the environment, if there is one.
        labels: Free labels.
        policies: Policies that the tools may use.
        pace: "realtime", or "lockstep" for a simulator that waits.
        limits: Bounds of the agent.
        system_prompt: Constant text; the same for all episodes of a fleet.
        guard: Last check of every action. None: width, dtype and finiteness only.
        allow_privileged: The robot may send ground truth (`privileged/...`) to policies.
        admission_timeout_s: Longest wait at the door. None: as long as it takes.
        on_queued: Told place and expected wait whenever they change.
        span_attributes: Added to the episode's span.
    """

    robot_id: str = "robot-0"
    embodiment: str = ""
    run_id: str = ""
    task_family: str = ""
    seed: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    policies: Sequence[str] = ()
    pace: Pace = "realtime"
    limits: AgentLimits = field(default_factory=AgentLimits)
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    guard: ActionGuard | None = None
    allow_privileged: bool = False
    admission_timeout_s: float | None = None
    on_queued: Callable[[QueueUpdate], None] | None = None
    span_attributes: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


def run_episode(
    client: Client,
    robot: Robot,
    tools: Callable[[RunningEpisode], ToolRegistry],
    task: str,
    options: EpisodeOptions = EpisodeOptions(),  # frozen, so safe to share
    *,
    first_images: Callable[[RunningEpisode], Sequence[ImagePart]] | None = None,
    judge: Callable[[AgentEnd], Verdict] | None = None,
    on_state: Callable[[LoopState], None] | None = None,
    telemetry: Telemetry | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> EpisodeResult:
    """Run one episode to its end.

    Args:
        client: The server.
        robot: Called by the control loop only.
        tools: Makes the tools, once the episode is admitted.
        task: The task in words.
        options: How.
        first_images: Pictures for the brain's first turn.
        judge: The world's own verdict; None believes the brain.
        on_state: Told the loop's counters after every tick; must be quick.
        telemetry: Where spans go; None: the client's, if it has one.
        clock: The robot's clock.

    Returns:
        What happened, also when the episode was lost, stopped or ran into a limit.

    Raises:
        InvalidArgumentError: The robot lacks something. The server was not asked.
        RobotSdkError: The episode was never admitted.
        BaseException: Whatever `tools`, `first_images` or `judge` raise, and KeyboardInterrupt;
            the server is told that the episode was aborted.
    """
    check_robot(robot)
    if telemetry is None:
        known = client.telemetry
        telemetry = known if isinstance(known, Telemetry) else no_telemetry()
    span = telemetry.start_span(
        attributes.SPAN_EPISODE,
        attributes={
            **spans.episode(
                robot_id=options.robot_id,
                embodiment=options.embodiment or None,
                run_id=options.run_id or None,
                task=task,
                task_family=options.task_family or None,
                seed=options.seed,
                control_hz=robot.control_hz,
                pace=options.pace,
            ),
            **options.span_attributes,
        },
    )
    try:
        with client.episode(
            task=task,
            robot_id=options.robot_id,
            embodiment=options.embodiment,
            run_id=options.run_id,
            seed=options.seed,
            labels=options.labels,
            control_hz=robot.control_hz,
            policies=options.policies,
            uses_brain=True,
            task_family=options.task_family,
            on_queued=options.on_queued,
            admission_timeout_s=options.admission_timeout_s,
            allow_privileged=options.allow_privileged,
            trace=trace_context(span),
        ) as episode:
            run = _Run(client, episode, robot, options, telemetry, span, clock, on_state)
            result = run.to_end(task, tools, first_images, judge)
            episode.end(result.outcome, f"{result.reason}: {result.detail}")
    except BaseException as error:
        span.end(error=error, attributes=spans.episode_end(outcome="aborted", reason=str(error)))
        raise
    span.end(attributes=_span_end(client, result))
    return result


class _Run:
    """One admitted episode."""

    def __init__(
        self,
        client: Client,
        episode: Episode,
        robot: Robot,
        options: EpisodeOptions,
        telemetry: Telemetry,
        span: OpenSpan,
        clock: Clock,
        on_state: Callable[[LoopState], None] | None,
    ) -> None:
        self._episode = episode
        self._options = options
        self._clock = clock
        self._on_state = on_state
        self._ticks = TickMetrics(telemetry.metrics)
        self._loop = ControlLoop(
            robot,
            clock=clock,
            pace=options.pace,
            guard=options.guard,
            on_state=self._report_state,
        )
        self._trace = EpisodeTrace(telemetry, span, robot.control_hz, self._loop.state)
        self._running = RunningEpisode(
            episode,
            client.server_info,
            self._loop,
            self._trace,
            robot.control_hz,
            options.limits.max_env_steps,
        )

    def to_end(
        self,
        task: str,
        tools: Callable[[RunningEpisode], ToolRegistry],
        first_images: Callable[[RunningEpisode], Sequence[ImagePart]] | None,
        judge: Callable[[AgentEnd], Verdict] | None,
    ) -> EpisodeResult:
        """Run the agent, then judge; the loop has stopped, so the judge may use the robot."""
        started_s = self._clock.now_s()
        with self._loop:
            agent = Agent(
                self._episode,
                tools(self._running),
                task,
                first_images=first_images(self._running) if first_images else (),
                system_prompt=self._options.system_prompt,
                env_steps=lambda: self._loop.state().active_steps,
                limits=self._options.limits,
                clock=self._clock,
                observer=self._trace,
            )
            end = agent.run()
        state = self._loop.state()
        outcome, reason = _judged(end, judge)
        return EpisodeResult(
            success=outcome == "success",
            outcome=outcome,
            reason=reason,
            detail=end.detail,
            episode_id=self._episode.id,
            turns=end.turns,
            invalid_calls=end.invalid_calls,
            env_steps=state.active_steps,
            policy_steps=state.policy_steps,
            scripted_steps=state.scripted_steps,
            acted_steps=state.acted_steps,
            starved_ticks=state.starved_ticks,
            start_wait_ticks=state.start_wait_ticks,
            idle_ticks=state.idle_ticks,
            overrun_ticks=state.overrun_ticks,
            chunks=self._running.num_chunks,
            queued_s=self._episode.queued_s,
            duration_s=self._clock.now_s() - started_s,
            samples=end.samples,
            error=end.error,
        )

    def _report_state(self, state: LoopState) -> None:
        self._episode.update_state(
            RobotState(
                control_step=state.step,
                buffered_steps=state.buffered_steps,
                steps_left=state.steps_left,
                tool=state.tool,
                starved_ticks=state.starved_ticks,
                start_wait_ticks=state.start_wait_ticks,
                idle_ticks=state.idle_ticks,
                overrun_ticks=state.overrun_ticks,
                estopped=state.estopped,
            )
        )
        self._ticks.update(
            acted=state.acted_steps,
            starved=state.starved_ticks,
            start_wait=state.start_wait_ticks,
            idle=state.idle_ticks,
            overrun=state.overrun_ticks,
        )
        if self._on_state is not None:
            self._on_state(state)


def _judged(end: AgentEnd, judge: Callable[[AgentEnd], Verdict] | None) -> tuple[Outcome, str]:
    """The world's word counts more than the brain's; an episode broken off is no success."""
    if judge is None or end.outcome == "aborted":
        return end.outcome, end.reason
    verdict = judge(end)
    if verdict.success:
        return "success", end.reason
    return "failure", verdict.reason if end.outcome == "success" else end.reason


def _span_end(client: Client, result: EpisodeResult) -> dict[str, AttributeValue]:
    offset = client.clock_offset
    return {
        **spans.episode(
            episode_id=result.episode_id,
            queued_s=result.queued_s,
            clock_offset_s=offset.offset_s,
            clock_bound_s=offset.bound_s,
        ),
        **spans.episode_end(
            outcome=result.outcome,
            reason=result.reason,
            acted_ticks=result.acted_steps,
            starved_ticks=result.starved_ticks,
            start_wait_ticks=result.start_wait_ticks,
            idle_ticks=result.idle_ticks,
            overrun_ticks=result.overrun_ticks,
            total_steps=result.env_steps,
            policy_steps=result.policy_steps,
            scripted_steps=result.scripted_steps,
        ),
    }
