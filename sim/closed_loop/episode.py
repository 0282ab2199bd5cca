"""One real episode under the delays of a loaded box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from robot_sdk.action_guard import ActionGuard
from robot_sdk.agent import Agent, AgentLimits
from robot_sdk.chunks import PolicyStream
from robot_sdk.client import Client
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.episode import Episode
from robot_sdk.policy_source import ChunkRecord
from robot_sdk.tools import ToolRegistry
from robot_sdk.trace.stats import Summary
from sim.closed_loop.body import OpenPolicy, VirtualBody
from sim.closed_loop.chunk_load import ChunkLoad, start_fleet
from sim.closed_loop.delays import EpisodeDelays
from sim.closed_loop.fleet_clock import FleetClock
from sim.closed_loop.resting import RestingRobot
from sim.closed_loop.slow_brain import SlowBrain
from sim.libero.env import ACTION_DIM, CONTROL_HZ, LiberoEnv
from sim.libero.judge import settle_and_judge
from sim.libero.robot import EMBODIMENT
from sim.libero.tools import POLICY, LiberoTools

#: As `python -m sim run`.
MAX_ENV_STEPS = 3000


@dataclass(frozen=True)
class ClosedLoopRecord:
    """What became of one episode. Seconds are virtual and count from admission.

    Attributes:
        success: LIBERO's own verdict, and the policy made the grasp.
        reason: Why it ended, one word.
        success_s: When the goal first held. None: never.
        ended_s: When the agent was done.
        brain_s: Of them, spent waiting for brain turns.
        turns: Brain turns.
        steps, policy_steps: Control steps with a tool running; of them, with the policy in charge.
        starved_ticks, start_wait_ticks: Held steps among the policy's; see `LoopState`.
        idle_ticks: Steps that the world went on without a tool: while the brain thought.
        left_out_steps: Holds that were counted and not computed; see `RestingRobot`.
        chunks, late_chunks: Valid chunks, and those of which no row was in time.
        chunk_latency_p50_s, chunk_latency_p90_s: From observation to chunk. None: no chunk.
        door_wait_s: At the door, before it was admitted.
        wall_s: Real time that it took.
    """

    suite: str
    task: int
    init: int
    success: bool
    reason: str
    success_s: float | None
    ended_s: float
    brain_s: float
    turns: int
    steps: int
    policy_steps: int
    starved_ticks: int
    start_wait_ticks: int
    idle_ticks: int
    left_out_steps: int
    chunks: int
    late_chunks: int
    chunk_latency_p50_s: float | None
    chunk_latency_p90_s: float | None
    door_wait_s: float
    wall_s: float


def run_closed_loop(
    client: Client,
    env: LiberoEnv,
    delays: EpisodeDelays,
    load: ChunkLoad,
    seed: int,
    *,
    leaves_out: bool = True,
) -> ClosedLoopRecord:
    """Run one episode from the environment's present initial state.

    Brain and policy are the server's, asked over gRPC in real time. How long they take in the
    robot's world does not come from that but from `delays` and `load`.

    Args:
        client: A server with the demo planner and the flow policy.
        env: Reset.
        delays: Of brain turns and the door.
        load: Of the action tier.
        seed: Of the action tier.
        leaves_out: Holds at rest are not computed.

    Raises:
        RobotSdkError: The server was lost.
    """
    started_s = SYSTEM_CLOCK.now_s()
    fleet = start_fleet(load, CONTROL_HZ, seed)
    clock = FleetClock(fleet.loop)
    admitted_s = clock.now_s()
    watch = _FirstSuccess(clock.now_s)
    robot = RestingRobot(env, clock, watch.on_step, leaves_out=leaves_out)
    watch.robot = robot
    with client.episode(
        task=env.language,
        robot_id="closed-loop",
        embodiment=EMBODIMENT,
        task_family=env.task.suite,
        seed=seed,
        control_hz=robot.control_hz,
        policies=(POLICY,),
        uses_brain=True,
        allow_privileged=True,
    ) as episode:
        body = VirtualBody(
            robot,
            fleet,
            clock,
            _opener(episode),
            guard=ActionGuard([-1.0] * ACTION_DIM, [1.0] * ACTION_DIM),
            max_env_steps=MAX_ENV_STEPS,
        )
        agent = Agent(
            SlowBrain(episode, delays, clock, body.pass_time),
            ToolRegistry(LiberoTools(robot, body)),
            env.language,
            env_steps=lambda: body.state.active_steps,
            limits=AgentLimits(max_env_steps=MAX_ENV_STEPS),
            clock=clock,
        )
        end = agent.run()
        if end.error is not None:
            raise end.error
        ended_s = clock.now_s() - admitted_s
        verdict = settle_and_judge(robot)
        episode.end("success" if verdict.success else "failure", verdict.reason)
    state = body.state
    latency = Summary.of(_latencies_s(body.chunks))
    return ClosedLoopRecord(
        suite=env.task.suite,
        task=env.task.index,
        init=env.init_index or 0,
        success=verdict.success,
        reason=end.reason if verdict.success or end.outcome != "success" else verdict.reason,
        success_s=None if watch.success_s is None else watch.success_s - admitted_s,
        ended_s=ended_s,
        brain_s=sum(sample.brain_s for sample in end.samples),
        turns=end.turns,
        steps=state.active_steps,
        policy_steps=state.policy_steps,
        starved_ticks=state.starved_ticks,
        start_wait_ticks=state.start_wait_ticks,
        idle_ticks=state.idle_ticks,
        left_out_steps=robot.left_out_steps,
        chunks=sum(chunk.received_s is not None for chunk in body.chunks),
        late_chunks=sum(chunk.outcome == "late" for chunk in body.chunks),
        chunk_latency_p50_s=latency.p50,
        chunk_latency_p90_s=latency.p90,
        door_wait_s=delays.door_wait_s,
        wall_s=SYSTEM_CLOCK.now_s() - started_s,
    )


class _FirstSuccess:
    """Notes when the robot's goal first held."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.robot: RestingRobot | None = None
        self.success_s: float | None = None
        self._now_s = now_s

    def on_step(self, step: int) -> None:
        """After every computed control step."""
        if self.success_s is None and self.robot is not None and self.robot.success_step == step:
            self.success_s = self._now_s()


def _opener(episode: Episode) -> OpenPolicy:
    def open_policy(policy: str, instruction: str, keys: tuple[str, ...]) -> PolicyStream:
        return episode.open_policy(policy, instruction, keys, control_hz=CONTROL_HZ)

    return open_policy


def _latencies_s(chunks: list[ChunkRecord]) -> list[float]:
    return [chunk.received_s - chunk.sent_s for chunk in chunks if chunk.received_s is not None]
