"""Policies of a replay on an action tier: they take its time, and what starves is counted."""

from __future__ import annotations

import pytest

from sim.fleet.action_time import GIVE_UP_S, ActionTime
from sim.fleet.event_loop import EventLoop
from sim.fleet.replay.robot import TraceTime
from sim.fleet.replay.settings import ActionChoice
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace

FIRST_CHUNK_S = 0.16  # the study's latency of a batch of one


class Tier:
    """An action tier, and when each robot was through its interval."""

    def __init__(self, **choice: object) -> None:
        self.loop = EventLoop()
        rest = TraceTime(self.loop, uses_wall=False)
        self.time = ActionTime(self.loop, ActionChoice(**choice), rest, 0, uses_wall=False)  # type: ignore[arg-type]
        self.done_s: dict[int, float] = {}

    def ask(self, robot: int, chunks: int, env_steps: int) -> None:
        trace = EpisodeTrace("t", "family", (TurnTrace(1, 1, env_steps, chunks=chunks),))
        self.time.pass_interval(robot, trace, 0, lambda: self._done(robot))

    def run(self, until_s: float = 100.0) -> None:
        self.loop.run_until(until_s)

    def _done(self, robot: int) -> None:
        self.done_s[robot] = self.loop.clock.now_s()


def test_an_interval_without_a_policy_takes_the_traces_time_and_no_tick() -> None:
    tier = Tier()
    tier.ask(0, chunks=0, env_steps=40)
    tier.run()
    assert tier.done_s == {0: pytest.approx(2.0)}
    assert tier.time.ticks == {}


def test_a_robot_alone_makes_its_chunks_rows_without_starving_and_then_the_rest() -> None:
    tier = Tier()
    tier.ask(0, chunks=4, env_steps=60)
    tier.run()
    ticks = tier.time.ticks[0]
    assert (ticks.acted, ticks.starved) == (20, 0)
    # 20 rows at 20 Hz after the first chunk, 40 scripted steps after them.
    assert FIRST_CHUNK_S + 0.95 <= ticks.open_s <= FIRST_CHUNK_S + 1.3
    assert tier.done_s[0] == pytest.approx(ticks.open_s + 2.0)


def test_a_policy_may_make_all_of_an_interval() -> None:
    tier = Tier(whole_gap=True)
    tier.ask(0, chunks=0, env_steps=60)
    tier.run()
    assert tier.time.ticks[0].acted == 60


def test_robots_beyond_the_tiers_places_starve_and_take_longer() -> None:
    crowded, roomy = Tier(num_gpus=1), Tier(num_gpus=2)
    for tier in (crowded, roomy):
        for robot in range(12):
            tier.ask(robot, chunks=20, env_steps=100)
        tier.run()
    assert crowded.time.worst_starved_fraction > 0.1
    assert roomy.time.worst_starved_fraction <= 0.01
    assert max(crowded.done_s.values()) > max(roomy.done_s.values())
    assert all(ticks.acted == 100 for ticks in roomy.time.ticks.values())


def test_robots_that_come_one_after_the_other_share_one_place() -> None:
    tier = Tier(control_hz=25.0)
    for robot in range(12):
        tier.loop.at(3.0 * robot, lambda robot=robot: tier.ask(robot, chunks=10, env_steps=50))  # type: ignore[misc]
    tier.run()
    assert len(tier.done_s) == 12
    assert tier.time.worst_starved_fraction == 0.0


def test_where_no_row_is_ever_in_time_the_robot_gives_up_and_goes_on() -> None:
    tier = Tier(control_hz=200.0)  # a chunk of 10 rows lasts 50 ms, the first batch takes 160
    tier.ask(0, chunks=1, env_steps=5)
    tier.run()
    assert tier.done_s[0] == pytest.approx(GIVE_UP_S)
    assert tier.time.ticks[0].acted == 0
    assert tier.time.worst_starved_fraction == 1.0
