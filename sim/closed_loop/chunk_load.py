"""The action tier that a robot shares with the rest of its fleet."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial

from server.core.batching import STUDY_TABLE, LatencyRow, LatencyTable
from sim.fleet.action import Fleet, FleetRun
from sim.fleet.action_robot import RobotPlan

#: The other robots are there, and paced, before the one that is looked at comes.
SETTLED_S = 5.0

#: A policy that takes next to no time, so that a chunk is there in the tick after its observation.
AT_ONCE = LatencyTable(
    "none", "none", "none", "none", 0, 1, (LatencyRow(1, 0.001), LatencyRow(64, 0.001))
)


@dataclass(frozen=True)
class ChunkLoad:
    """Who else asks the policy's GPU for chunks.

    Attributes:
        discipline: Name from sim.fleet.disciplines: "paced" or "prefetch" (unpaced).
        num_others: Robots beside the one that is looked at.
        running_s: A robot's policy tool runs for so long at a time. None: it never ends.
        pause_s: Mean time between two of its tools (exponential); not used if they never end.
        table: What a batch takes.
    """

    discipline: str
    num_others: int
    running_s: float | None = None
    pause_s: float = 0.0
    table: LatencyTable = STUDY_TABLE


def start_fleet(load: ChunkLoad, control_hz: float, seed: int) -> FleetRun:
    """The tier with the other robots at work, at virtual time `SETTLED_S`."""
    lasting = tuple(RobotPlan(control_hz) for _ in range(load.num_others))
    joined = () if load.running_s is not None else lasting
    fleet = Fleet(joined, load.discipline, table=load.table)
    run = FleetRun(fleet, seed)
    if load.running_s is not None:
        others = _OnAndOff(run, control_hz, load.running_s, load.pause_s, random.Random(seed))
        for _ in range(load.num_others):
            others.pause()
    run.loop.run_until(SETTLED_S)
    return run


class _OnAndOff:
    """Robots whose policy tools come and go."""

    def __init__(
        self,
        run: FleetRun,
        control_hz: float,
        running_s: float,
        pause_s: float,
        chance: random.Random,
    ) -> None:
        self._run = run
        self._control_hz = control_hz
        self._running_s = running_s
        self._pause_s = pause_s
        self._chance = chance
        self._num_tools = 0

    def pause(self) -> None:
        """One robot has nothing for the policy for a while."""
        loop = self._run.loop
        pause_s = self._chance.expovariate(1.0 / self._pause_s) if self._pause_s > 0 else 0.0
        loop.at(loop.clock.now_s() + pause_s, self._begin)

    def _begin(self) -> None:
        loop = self._run.loop
        now_s = loop.clock.now_s()
        ends_s = now_s + self._running_s
        number = self._num_tools
        self._num_tools += 1
        self._run.join(number, RobotPlan(self._control_hz, now_s, ends_s))
        loop.at(ends_s, partial(self._end, number))

    def _end(self, number: int) -> None:
        # What it executed is of no interest, and a long run has thousands of tools.
        del self._run.robots[number]
        self.pause()
