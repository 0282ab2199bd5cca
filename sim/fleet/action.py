"""A fleet at the action tier in virtual time: who starves, and by how much."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from robot_sdk.first_tick import first_tick_s
from robot_sdk.spec import PolicySpec
from robot_sdk.testing.virtual_policy import plain_spec
from robot_sdk.timesync import ClockOffset
from server.core.batching import STUDY_TABLE, Accepted, LatencyTable
from server.core.batching.deadline import DEFAULT_MARGIN_S
from sim.fleet.action_robot import Answer, FleetRobot, FleetStream, RobotPlan
from sim.fleet.action_tier import ActionTier
from sim.fleet.disciplines import DISCIPLINES, Discipline
from sim.fleet.event_loop import EventLoop
from sim.fleet.network import NetworkModel
from sim.fleet.statistics import jain_index


@dataclass(frozen=True)
class Fleet:
    """What is simulated.

    Attributes:
        robots: Who takes part, and when.
        discipline: Name from `DISCIPLINES`.
        num_gpus: Policy workers.
        duration_s: Virtual seconds.
        horizon, executed_steps: Rows in a chunk, and rows after which the next should take over.
        table: What a batch takes, and what the batcher knows of it before the first.
        max_batch: Most observations in a batch.
        network: Delay of messages.
        latency_spread: A batch takes up to this share longer or shorter than the table says.
        margin_s: What the batcher sets aside for the network, beside the jitter it sees.
        grid_by: How a robot lays its grid when its stream opens: "receipt" counts from when the
            answer came, less the best round trip, as robot_sdk does; "clock" converts the server's
            time with a clock offset known to within `clock_error_s`.
        clock_error_s: Error of that offset, uniform to both sides.
        join_spread_s: A robot joins up to so much after its plan says, each by its own chance.
    """

    robots: tuple[RobotPlan, ...]
    discipline: str
    num_gpus: int = 1
    duration_s: float = 60.0
    horizon: int = 10
    executed_steps: int = 5
    table: LatencyTable = STUDY_TABLE
    max_batch: int = 64
    network: NetworkModel = field(default_factory=NetworkModel)
    latency_spread: float = 0.0
    margin_s: float = DEFAULT_MARGIN_S
    grid_by: Literal["clock", "receipt"] = "clock"
    clock_error_s: float = 0.001
    join_spread_s: float = 1.0


@dataclass(frozen=True)
class RobotOutcome:
    """What became of one robot, by the SDK's own counters. Ticks of the policy tool."""

    control_hz: float
    acted_ticks: int
    starved_ticks: int
    start_wait_ticks: int
    overrun_ticks: int

    @property
    def starved_fraction(self) -> float:
        """Of the ticks since its first chunk; 0 without one."""
        counted = self.acted_ticks + self.starved_ticks
        return self.starved_ticks / counted if counted else 0.0

    @property
    def progress(self) -> float:
        """Part of all ticks of its policy tool in which it moved."""
        ticks = self.acted_ticks + self.starved_ticks + self.start_wait_ticks
        return self.acted_ticks / ticks if ticks else 0.0


@dataclass(frozen=True)
class FleetOutcome:
    """What became of the fleet.

    Attributes:
        robots: In the order of the plan.
        batch_sizes: Pairs of batch size and how often it was run.
        busy_fraction: Part of the time that a GPU computed.
    """

    robots: tuple[RobotOutcome, ...]
    batch_sizes: tuple[tuple[int, int], ...]
    busy_fraction: float

    @property
    def worst_starved_fraction(self) -> float:
        """Of the robot that starved most."""
        return max((robot.starved_fraction for robot in self.robots), default=0.0)

    @property
    def starved_fraction(self) -> float:
        """Of all ticks of all robots."""
        starved = sum(robot.starved_ticks for robot in self.robots)
        counted = starved + sum(robot.acted_ticks for robot in self.robots)
        return starved / counted if counted else 0.0

    @property
    def jain_index(self) -> float:
        """Jain's fairness index of the robots' progress: 1 if all are equal, 1/n if one has all."""
        return jain_index([robot.progress for robot in self.robots])


class FleetRun:
    """One simulation; the same seed gives the same outcome.

    Args:
        loop: Of a larger simulation that this one is part of; None: one of its own.

    Attributes:
        loop: Its virtual time.
        tier: The server's end.
        robots: The robots that have joined so far, by number; those of the plan by their index.
    """

    def __init__(self, fleet: Fleet, seed: int = 0, loop: EventLoop | None = None) -> None:
        self._fleet = fleet
        self._chance = random.Random(seed)
        self.loop = EventLoop() if loop is None else loop
        self._discipline: Discipline = DISCIPLINES[fleet.discipline]
        batcher = self._discipline.make_batcher(
            fleet.table, fleet.max_batch, fleet.num_gpus, fleet.margin_s
        )
        self.tier = ActionTier(
            self.loop, batcher, fleet.table, fleet.num_gpus, self._chance, fleet.latency_spread
        )
        self.robots: dict[int, FleetRobot] = {}
        for number, plan in enumerate(fleet.robots):
            offset_s = self._chance.random() * fleet.join_spread_s
            self.loop.at(plan.joins_s + offset_s, partial(self._join, number, plan))

    def run(self) -> FleetOutcome:
        """To the end of the fleet's duration."""
        self.loop.run_until(self._fleet.duration_s)
        num_gpu_seconds = self._fleet.duration_s * self._fleet.num_gpus
        return FleetOutcome(
            tuple(self._outcome(number, plan) for number, plan in enumerate(self._fleet.robots)),
            tuple(sorted(self.tier.batch_sizes.items())),
            self.tier.busy_s / num_gpu_seconds,
        )

    def stream(self, number: int, spec: PolicySpec, answer: Answer | None = None) -> FleetStream:
        """A stream to the tier, not yet opened. `number` is its own while it is open."""
        network, chance = self._fleet.network, self._chance
        return FleetStream(number, spec, self.loop, network, chance, self.tier.submit, answer)

    def join(self, number: int, plan: RobotPlan) -> FleetRobot:
        """A robot opens its policy stream now."""
        fleet, loop = self._fleet, self.loop
        spec = plain_spec(
            horizon=fleet.horizon, executed_steps=fleet.executed_steps, control_hz=plan.control_hz
        )
        stream = self.stream(number, spec)
        robot = FleetRobot(plan, stream, loop)
        self.robots[number] = robot
        asked_s, answered_s = stream.opened_s()
        loop.at(asked_s, lambda: self._open(robot, answered_s))
        if plan.leaves_s is not None:
            loop.at(plan.leaves_s, lambda: self._leave(robot))
        return robot

    def _join(self, number: int, plan: RobotPlan) -> None:
        self.join(number, plan)

    def leave(self, number: int) -> None:
        """A robot closes its policy stream now; it is forgotten."""
        self._leave(self.robots.pop(number))

    def open(self, stream: FleetStream, answered_s: float) -> float | None:
        """The server opens a stream; its robot has the answer at `answered_s`.

        Returns when the server would like the first observation, on the robot's clock. None: at
        any time.
        """
        verdict = self.tier.open_stream(stream)
        assert isinstance(verdict, Accepted), "a discipline's batcher refuses nobody"
        wish_s = verdict.next_observation_in_s
        return None if wish_s is None else self._first_tick_s(wish_s, answered_s)

    def _open(self, robot: FleetRobot, answered_s: float) -> None:
        first_s = self.open(robot.stream, answered_s)
        self.loop.at(answered_s, lambda: robot.start(self._discipline.make_source, first_s))

    def _first_tick_s(self, wish_s: float, answered_s: float) -> float:
        """What the robot makes of the server's wish."""
        fleet = self._fleet
        error_s = fleet.clock_error_s * (2 * self._chance.random() - 1)
        bound_s = fleet.network.best_round_trip_s / 2
        sent_s = self.loop.clock.now_s() if fleet.grid_by == "clock" else None
        return first_tick_s(wish_s, answered_s, sent_s, ClockOffset(error_s, bound_s, 0.0))

    def _leave(self, robot: FleetRobot) -> None:
        robot.leave()
        self.tier.close_stream(robot.stream)

    def _outcome(self, number: int, plan: RobotPlan) -> RobotOutcome:
        robot = self.robots.get(number)
        if robot is None:
            return RobotOutcome(plan.control_hz, 0, 0, 0, 0)
        state = robot.state()
        return RobotOutcome(
            plan.control_hz,
            state.acted_steps,
            state.starved_ticks,
            state.start_wait_ticks,
            state.overrun_ticks,
        )


def simulate(fleet: Fleet, seed: int = 0) -> FleetOutcome:
    """Run a fleet to its end."""
    return FleetRun(fleet, seed).run()
