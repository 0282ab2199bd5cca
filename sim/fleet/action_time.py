"""The robot's own time of a replay, with its policies on a simulated action tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sim.fleet.action import Fleet, FleetRun
from sim.fleet.action_robot import FleetRobot, RobotPlan
from sim.fleet.event_loop import EventLoop
from sim.fleet.replay.robot import RobotTime
from sim.fleet.replay.settings import ActionChoice
from sim.fleet.workload.trace import EpisodeTrace

#: A policy tool gives up after so many times of what it needs, and this much at least: a tier that
#: is too slow for any row to be in time must not stop its robot for ever.
GIVE_UP_FACTOR = 10.0
GIVE_UP_S = 10.0


@dataclass
class RobotTicks:
    """Ticks of one robot's policy tools, by the SDK's own counters, and how long they ran."""

    acted: int = 0
    starved: int = 0
    start_wait: int = 0
    open_s: float = 0.0

    @property
    def starved_fraction(self) -> float:
        """Of the ticks since each tool's first chunk, or of all where it gave up; 0 without any."""
        counted = self.acted + self.starved
        return self.starved / counted if counted else 0.0


class ActionTime:
    """An interval of a trace: its chunks are run on the tier, and the rest of it takes its time.

    A turn's `chunks` of `executed_steps` rows each come first, as one policy tool at the tier's
    control rate; what the trace's interval holds beyond them follows. A starved tool takes longer,
    and with it the interval, the episode and the robot's next turn.

    Args:
        loop: The replay's.
        choice: The tier.
        rest: Passes intervals without a policy.
        seed: Of the tier's own chance.
        uses_wall: An interval is the recorded wall clock where a trace has one.

    Attributes:
        ticks: By robot; of tools that have ended.
    """

    def __init__(
        self, loop: EventLoop, choice: ActionChoice, rest: RobotTime, seed: int, uses_wall: bool
    ) -> None:
        fleet = Fleet(
            (),
            choice.discipline,
            num_gpus=choice.num_gpus,
            horizon=choice.horizon,
            executed_steps=choice.executed_steps,
        )
        self._loop = loop
        self._choice = choice
        self._rest = rest
        self._uses_wall = uses_wall
        self._run = FleetRun(fleet, seed, loop)
        self._num_tools = 0
        self.ticks: dict[int, RobotTicks] = {}

    @property
    def worst_starved_fraction(self) -> float:
        """Of the robot that starved most; 0 before any ran a policy."""
        return max((ticks.starved_fraction for ticks in self.ticks.values()), default=0.0)

    @property
    def starved_fraction(self) -> float:
        """Of all ticks of all robots."""
        total = RobotTicks(
            acted=sum(ticks.acted for ticks in self.ticks.values()),
            starved=sum(ticks.starved for ticks in self.ticks.values()),
        )
        return total.starved_fraction

    @property
    def open_s(self) -> float:
        """Time that policy tools ran, all robots together."""
        return sum(ticks.open_s for ticks in self.ticks.values())

    def pass_interval(
        self, robot: int, trace: EpisodeTrace, turn_index: int, on_done: Callable[[], None]
    ) -> None:
        """See `RobotTime`."""
        turn = trace.turns[turn_index]
        steps = turn.chunks * self._choice.executed_steps
        if self._choice.whole_gap:
            steps = turn.env_steps
        if steps == 0:
            self._rest.pass_interval(robot, trace, turn_index, on_done)
            return
        gap_s = trace.gap_s(turn_index, self._uses_wall)
        # What the policy makes of the interval takes as long as the tier lets it.
        rest_s = max(0.0, gap_s - steps / trace.control_hz)
        self._start(robot, steps, lambda: self._later(rest_s, on_done))

    def _start(self, robot: int, steps: int, on_end: Callable[[], None]) -> None:
        """Open a stream and run a policy tool of so many executed rows."""
        number, self._num_tools = self._num_tools, self._num_tools + 1
        tool = _Tool(number, robot, steps, self._loop.clock.now_s(), on_end)
        driven = self._run.join(number, RobotPlan(self._choice.control_hz))
        driven.robot.on_act = lambda _action: self._acted(tool, driven)
        needed_s = steps / self._choice.control_hz
        limit_s = max(GIVE_UP_S, GIVE_UP_FACTOR * needed_s)
        self._later(limit_s, partial(self._end, tool, driven, gave_up=True))

    def _acted(self, tool: _Tool, driven: FleetRobot) -> None:
        tool.steps_left -= 1
        if tool.steps_left == 0:
            # Not within the tick that is going on.
            self._later(0.0, partial(self._end, tool, driven))

    def _end(self, tool: _Tool, driven: FleetRobot, *, gave_up: bool = False) -> None:
        if tool.has_ended:
            return
        tool.has_ended = True
        self._run.leave(tool.number)
        state, ticks = driven.state(), self.ticks.setdefault(tool.robot, RobotTicks())
        ticks.acted += state.acted_steps
        # A tool that never got a usable row waited for its start to the end: that is no start.
        ticks.starved += state.starved_ticks + (state.start_wait_ticks if gave_up else 0)
        ticks.start_wait += 0 if gave_up else state.start_wait_ticks
        ticks.open_s += self._loop.clock.now_s() - tool.opened_s
        tool.on_end()

    def _later(self, in_s: float, event: Callable[[], None]) -> None:
        self._loop.at(self._loop.clock.now_s() + in_s, event)


@dataclass
class _Tool:
    number: int
    robot: int
    steps_left: int
    opened_s: float
    on_end: Callable[[], None]
    has_ended: bool = False
