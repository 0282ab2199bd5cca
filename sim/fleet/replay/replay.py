"""One run: a fleet replayed in virtual time against the server's own decisions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import SchedulerOnlyEngine
from server.capacity.engine import library as vllm_library
from server.capacity.engine.library import Library
from server.core.admission import AdmissionPolicy, build_policy
from server.core.residency import EngineGauges
from sim.fleet.action_time import ActionTime
from sim.fleet.brain import cost_table
from sim.fleet.brain.brain_tier import BrainTier
from sim.fleet.brain.offload import HostMemory
from sim.fleet.event_loop import EventLoop
from sim.fleet.replay.checks import MOST_ROBOTS, check_settings, check_traces, engine_settings
from sim.fleet.replay.door import VirtualDoor
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.robot import Brain, FleetParts, RobotTime, TraceTime, VirtualRobot
from sim.fleet.replay.settings import FleetPoint, ReplaySettings
from sim.fleet.replay.summary import summarise
from sim.fleet.replay.tally import Tally
from sim.fleet.statistics import episode_s, too_short
from sim.fleet.workload import mixes
from sim.fleet.workload.trace import EpisodeTrace

#: A server's tick, as far as its decisions are concerned: FleetWatch looks once a second.
_LOOK_S = 1.0


def run(
    settings: ReplaySettings,
    seed: int,
    *,
    traces: Sequence[EpisodeTrace] | None = None,
    library: Library | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> ReplayResult:
    """Run to the end of the duration, or of a finite batch.

    Args:
        settings: What is run.
        seed: Of the order of the traces, and of all other chance.
        traces: Handed out in this order, again and again, instead of the settings' workload.
        library: The vLLM of this process; None: the installed one.
        on_progress: Told the virtual time, every virtual second.

    Returns:
        What happened until then, marked as partial, if it is interrupted (KeyboardInterrupt).

    Raises:
        InvalidArgumentError: A setting or a trace is out of range, or the library is another than
            the settings ask for.
        MissingExtraError: vLLM is not installed.
    """
    check_settings(settings, seed)
    engine = engine_settings(settings.engine)
    library = library_for(settings, library)
    workload = settings.workload
    if traces is None:
        traces = mixes.members(workload.mix, seed)
        order = mixes.episodes(workload, seed)
    else:
        order = itertools.cycle(traces)
    check_traces(traces, engine)
    policy = build_policy(settings.admission.policy, settings.admission.settings)
    cost = cost_table.load(settings.cost)
    loop = EventLoop()
    host = None if settings.offload is None else HostMemory(settings.offload, engine)
    brain = BrainTier(loop, SchedulerOnlyEngine(engine, library), cost, host)
    fleet = FleetReplay(settings, loop, brain, policy, order, seed)
    started_s = SYSTEM_CLOCK.now_s()
    is_partial = fleet.run(on_progress)
    wall_s = SYSTEM_CLOCK.now_s() - started_s
    result = fleet.result(seed, library.version, is_partial, wall_s)
    return replace(result, warnings=warnings_of(settings, traces, result))


def warnings_of(
    settings: ReplaySettings, traces: Sequence[EpisodeTrace], result: ReplayResult
) -> tuple[str, ...]:
    """Whether a run was too short to mean anything.

    The slowest episode is that of the traces at the run's median latency. A finite batch is as
    long as it is.
    """
    turn_s = result.brain_latency_s["p50"]
    if settings.episodes_per_robot is not None or turn_s is None:
        return ()
    uses_wall = settings.workload.gap == "wall"
    slowest_s = max(
        episode_s(
            (trace.gap_s(index, uses_wall) for index in range(len(trace.turns) - 1)),
            len(trace.turns),
            turn_s,
        )
        for trace in traces
    )
    warning = too_short(result.duration_s, slowest_s)
    return () if warning is None else (warning,)


def library_for(settings: ReplaySettings, library: Library | None) -> Library:
    """The vLLM to run settings with.

    Raises:
        InvalidArgumentError: The given one is another than the settings ask for.
        MissingExtraError: vLLM is not installed.
    """
    wants_study = settings.engine.version == "study"
    if library is None and not wants_study:
        return vllm_library.load()
    if library is None or (library.version == vllm_library.STUDY_VERSION) != wants_study:
        raise InvalidArgumentError(
            "these settings ask for another vLLM than this process has",
            field="engine version",
            value="none" if library is None else library.version,
            allowed=(vllm_library.STUDY_VERSION if wants_study else "the installed one",),
            hint="use sim.fleet.replay.runner, which starts a process for each version",
        )
    return library


class FleetReplay:
    """The parts of one run and what joins them.

    Args:
        brain: Serves the turns; on `loop`.
        traces: Endless.
        seed: Of an action tier's chance.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        loop: EventLoop,
        brain: Brain,
        policy: AdmissionPolicy,
        traces: Iterator[EpisodeTrace],
        seed: int = 0,
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._brain = brain
        self._policy = policy
        self._tally = Tally(settings.warm_up_s)
        self.door = VirtualDoor(
            loop,
            policy,
            self._told_gauges,
            max_waiting=MOST_ROBOTS,
            max_turn_hold_s=settings.admission.max_turn_hold_s,
        )
        uses_wall = settings.workload.gap == "wall"
        robot_time: RobotTime = TraceTime(loop, uses_wall)
        self._action: ActionTime | None = None
        if settings.action is not None:
            self._action = ActionTime(loop, settings.action, robot_time, seed, uses_wall)
            robot_time = self._action
        self._parts = FleetParts(
            loop=loop,
            door=self.door,
            brain=brain,
            robot_time=robot_time,
            tally=self._tally,
            traces=traces,
            block_tokens=settings.engine.block_tokens,
            one_way_s=settings.round_trip_s / 2,
            episodes_per_robot=settings.episodes_per_robot,
        )
        self._robots: list[VirtualRobot] = []
        self._points = list(settings.fleet)
        self._looks = 0
        for point in settings.fleet:
            loop.at(point.time_s, partial(self._resize, point))
        loop.at(_LOOK_S, self._look)

    def run(self, on_progress: Callable[[float], None] | None = None) -> bool:
        """To the end. Returns whether it was interrupted."""
        duration_s, seconds = self._settings.duration_s, 0
        try:
            while seconds < duration_s and not self._is_over():
                seconds += 1
                self._loop.run_until(min(float(seconds), duration_s))
                if on_progress is not None:
                    on_progress(self._loop.clock.now_s())
        except KeyboardInterrupt:
            return True
        return False

    def result(
        self, seed: int, engine_version: str, is_partial: bool, wall_s: float
    ) -> ReplayResult:
        """What happened so far."""
        return summarise(
            self._tally,
            self._policy,
            totals=self.door.registry.ledger.totals,
            seed=seed,
            engine_version=engine_version,
            duration_s=self._loop.clock.now_s(),
            is_partial=is_partial,
            wall_s=wall_s,
            action=self._action,
        )

    def _is_over(self) -> bool:
        """Of a finite batch: all have left, and nobody joins any more."""
        now_s = self._loop.clock.now_s()
        return (
            self._settings.episodes_per_robot is not None
            and now_s > self._points[-1].time_s
            and all(robot.has_left for robot in self._robots)
        )

    def _resize(self, point: FleetPoint) -> None:
        while len(self._robots) < point.num_robots:
            self._tally.join(len(self._robots))
            self._robots.append(VirtualRobot(len(self._robots), self._parts))
        for number, robot in enumerate(self._robots):
            robot.set_wants_work(number < point.num_robots, point.cuts_off)

    def _look(self) -> None:
        now_s = self._loop.clock.now_s()
        self.door.step()
        self._refresh(now_s)
        registry = self.door.registry
        blocks = registry.report.snapshot.working_set_blocks
        self._tally.look(
            now_s,
            self._brain.gauges,
            num_active=registry.num_active,
            num_at_door=registry.num_queued,
            working_set_share=(blocks or 0) / self._settings.engine.pool_blocks,
            cap=self._policy.cap,
        )
        self._looks += 1
        self._loop.at((self._looks + 1) * _LOOK_S, self._look)

    def _refresh(self, now_s: float) -> None:
        """Ask the engine to touch the prefixes that are due, as a server does at its ticks."""
        due = self.door.registry.due_refreshes(now_s)
        if not due:
            return
        robots = {robot.episode_id: robot for robot in self._robots}
        for episode_id in due:
            robots[episode_id].refresh(partial(self._refreshed, episode_id))

    def _refreshed(self, episode_id: str, found: bool | None) -> None:
        self.door.registry.refresh_done(episode_id, found, self._loop.clock.now_s())

    def _told_gauges(self) -> EngineGauges:
        """What the server is told of the pool, which may be wrong."""
        gauges = self._brain.gauges
        if gauges.pool_blocks is None:
            return gauges
        told = max(math.floor(gauges.pool_blocks * self._settings.admission.told_pool_share), 1)
        return replace(gauges, pool_blocks=told)
