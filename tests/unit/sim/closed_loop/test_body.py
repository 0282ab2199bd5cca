"""The SDK's control loop in a fleet's virtual time."""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.action_source import Tick
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import BadModelOutputError, DeadlineExceededError
from robot_sdk.testing import RecordingRobot, VirtualPolicyStream
from robot_sdk.testing.virtual_policy import VirtualAnswer, plain_spec
from server.core.batching import LatencyRow, LatencyTable
from sim.closed_loop.body import VirtualBody
from sim.closed_loop.fleet_clock import FleetClock
from sim.fleet.action import Fleet, FleetRun
from sim.fleet.network import NetworkModel

HZ = 20.0


def fleet(latency_s: float, discipline: str = "prefetch") -> FleetRun:
    table = LatencyTable(
        "p", "d", "f", "m", 0, 1, (LatencyRow(1, latency_s), LatencyRow(64, latency_s))
    )
    return FleetRun(Fleet((), discipline, table=table, network=NetworkModel(0.0)))


class Policy:
    """Opens streams that compute at once, and keeps them."""

    def __init__(self, answer: VirtualAnswer | None = None) -> None:
        self.streams: list[VirtualPolicyStream] = []
        self._answer = answer

    def __call__(self, name: str, instruction: str, keys: tuple[str, ...]) -> VirtualPolicyStream:
        given = self._answer
        answer = None if given is None else lambda _: given
        stream = VirtualPolicyStream(plain_spec(), VirtualClock(), answer=answer)
        self.streams.append(stream)
        return stream


def body(run: FleetRun, policy: Policy) -> tuple[VirtualBody, RecordingRobot, FleetClock]:
    clock = FleetClock(run.loop)
    robot = RecordingRobot(clock, control_hz=HZ)
    return VirtualBody(robot, run, clock, policy, max_env_steps=3000), robot, clock


def run_policy(body: VirtualBody, max_steps: int) -> None:
    body.run_policy(
        "virtual",
        "go",
        observation_keys=(),
        max_steps=max_steps,
        stop_when=lambda _: None,
        name="policy_pick",
    )


def test_the_world_goes_on_in_every_period_while_nothing_is_done() -> None:
    virtual, robot, clock = body(fleet(0.1), Policy())
    virtual.pass_time(1.0)
    assert [command.action for command in robot.commands] == [None] * 21
    assert clock.now_s() == 1.0
    assert virtual.state.idle_ticks == 21


@pytest.mark.parametrize(("latency_s", "late_steps"), [(0.04, 1), (0.16, 4), (0.2, 4), (0.236, 5)])
def test_a_chunk_comes_in_the_step_after_its_delay_and_earlier_rows_are_dropped(
    latency_s: float, late_steps: int
) -> None:
    virtual, robot, _ = body(fleet(latency_s), Policy())
    run_policy(virtual, 8)
    state = virtual.state
    assert state.start_wait_ticks == late_steps
    # The row of a step is the step's number; step 0 was over before the tool began.
    rows = [float(action[0]) for action in robot.actions]
    assert rows == list(range(1 + late_steps, 9))


def test_a_chunk_that_comes_after_all_its_rows_starves_the_robot() -> None:
    virtual, robot, _ = body(fleet(0.6), Policy())
    run_policy(virtual, 40)
    assert not robot.actions
    assert virtual.state.starved_ticks + virtual.state.start_wait_ticks == 40


def test_a_second_tool_finds_nothing_of_the_first_ones_chunks() -> None:
    virtual, robot, _ = body(fleet(0.1), Policy())
    run_policy(virtual, 4)
    before = len(robot.commands)
    run_policy(virtual, 4)
    rows = [float(c.action[0]) for c in robot.commands[before:] if c.action is not None]
    assert rows == [before + 2, before + 3]


def test_the_policys_stream_is_closed_when_the_tool_ends() -> None:
    policy = Policy()
    virtual, _, _ = body(fleet(0.1), policy)
    run_policy(virtual, 4)
    assert [stream.num_closed for stream in policy.streams] == [1]


def test_a_policy_that_fails_ends_the_tool_with_its_error() -> None:
    virtual, _, _ = body(fleet(0.1), Policy(BadModelOutputError("NaN")))
    with pytest.raises(BadModelOutputError, match="NaN"):
        run_policy(virtual, 4)


def test_a_policy_that_does_not_answer_ends_the_tool() -> None:
    class Silent(VirtualPolicyStream):
        def wait(self, timeout_s: float) -> bool:
            return False

    run = fleet(0.1)
    clock = FleetClock(run.loop)
    virtual = VirtualBody(
        RecordingRobot(clock, control_hz=HZ),
        run,
        clock,
        lambda *_: Silent(plain_spec(), VirtualClock()),
        max_env_steps=100,
    )
    with pytest.raises(DeadlineExceededError, match="sequence 0"):
        run_policy(virtual, 8)


def test_a_paced_robot_is_served_beside_others() -> None:
    virtual, robot, _ = body(fleet(0.16, "paced"), Policy())
    run_policy(virtual, 60)
    assert virtual.state.starved_ticks == 0
    assert np.all(np.diff([float(action[0]) for action in robot.actions]) == 1)


def test_the_budget_counts_steps_with_a_tool_alone() -> None:
    virtual, _, _ = body(fleet(0.1), Policy())
    virtual.pass_time(5.0)
    assert virtual.remaining_steps() == 3000
    run_policy(virtual, 10)
    assert virtual.remaining_steps() == 2990


def test_what_a_tool_looks_at_takes_no_time() -> None:
    virtual, robot, clock = body(fleet(0.1), Policy())
    assert virtual.call(lambda it: it) is robot
    assert clock.now_s() == 0.0
    assert not robot.commands


def test_a_source_that_stops_by_its_own_condition_says_so() -> None:
    virtual, _, _ = body(fleet(0.1), Policy())

    def after_six(tick: Tick) -> str | None:
        return "enough" if tick.step >= 6 else None

    report = virtual.run_policy(
        "virtual", "go", observation_keys=(), max_steps=50, stop_when=after_six, name="pick"
    )
    assert (report.first_step, report.steps) == (1, 5)
