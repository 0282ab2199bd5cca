"""Sources, counters, emergency stop and errors, tick by tick in virtual time at 20 Hz."""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.action_guard import ActionGuard
from robot_sdk.action_source import Act, Done, Hold, HoldReason, SourceStatus
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import DeadlineExceededError, EstopError, InvalidArgumentError
from robot_sdk.testing.recording_robot import RecordingRobot
from robot_sdk.testing.virtual_control import VirtualControl


class Script:
    """A source that gives the listed commands and remembers how it was called."""

    name = "script"

    def __init__(self, commands, kind="scripted"):
        self.kind = kind
        self._commands = iter(commands)
        self.calls: list[str] = []

    def start(self, tick):
        self.calls.append("start")

    def next(self, tick):
        self.calls.append("next")
        command = next(self._commands, None)
        if isinstance(command, Exception):
            raise command
        if callable(command):
            return command(tick)
        return Done("end") if command is None else command

    def wait(self, timeout_s):
        self.calls.append("wait")

    def stop(self):
        self.calls.append("stop")


def act(value: float = 0.0) -> Act:
    return Act(np.array([value], np.float32))


def hold(reason: HoldReason = HoldReason.SETTLING) -> Hold:
    return Hold(reason)


class World:
    def __init__(self, **options):
        self.clock = VirtualClock()
        self.robot = RecordingRobot(self.clock)
        self.control = VirtualControl(self.robot, self.clock, **options)

    @property
    def state(self):
        return self.control.state()


def test_realtime_tick_without_source_holds_and_is_idle():
    world = World()
    world.control.tick(3)
    assert [c.action for c in world.robot.commands] == [None] * 3
    assert (world.state.step, world.state.idle_ticks) == (3, 3)


def test_lockstep_without_source_does_nothing():
    world = World(pace="lockstep")
    world.control.tick(3)
    assert world.robot.commands == []
    assert world.state.step == 0


def test_lockstep_hold_for_want_of_a_chunk_waits_without_a_step():
    world = World(pace="lockstep")
    script = Script([hold(HoldReason.START_WAIT), hold(HoldReason.STARVED), act(1)])
    world.control.finish(world.control.submit(script))
    assert [c.action.tolist() for c in world.robot.commands] == [[1.0]]
    assert script.calls.count("wait") == 2
    assert world.state.step == 1


def test_lockstep_settling_is_a_step():
    world = World(pace="lockstep")
    run = world.control.finish(world.control.submit(Script([hold(), hold(), act()])))
    assert [c.action is None for c in world.robot.commands] == [True, True, False]
    assert (run.report.settling_ticks, run.report.steps) == (2, 3)


def test_report_and_state_count_each_kind_of_tick():
    world = World()
    commands = [hold(HoldReason.START_WAIT)] * 2 + [act()] * 5 + [hold(HoldReason.STARVED)] * 3
    run = world.control.finish(world.control.submit(Script(commands, kind="policy")))
    world.control.finish(world.control.submit(Script([act(), hold()])))
    report, state = run.report, world.state
    assert (report.start_wait_ticks, report.acted, report.starved_ticks) == (2, 5, 3)
    assert (report.steps, report.result, report.first_step) == (10, "end", 0)
    assert (report.started_s, report.ended_s) == (0.0, 0.5)
    assert (state.policy_steps, state.scripted_steps, state.active_steps) == (10, 2, 12)
    # One idle tick per source: the one in which it said that it was done.
    assert (state.idle_ticks, state.acted_steps, state.commanded_steps) == (2, 6, 14)


def test_state_names_the_running_tool_and_what_it_reports():
    world = World()

    class Reporting(Script):
        def status(self):
            return SourceStatus(buffered_steps=7, steps_left=3)

    world.control.submit(Reporting([act(), act()]))
    world.control.tick()
    assert (world.state.tool, world.state.buffered_steps, world.state.steps_left) == (
        "script",
        7,
        3,
    )
    world.control.tick(2)
    assert (world.state.tool, world.state.buffered_steps) == ("", None)


def test_one_source_at_a_time():
    world = World()
    world.control.submit(Script([act()] * 9))
    with pytest.raises(InvalidArgumentError, match="still active"):
        world.control.submit(Script([act()]))


@pytest.mark.parametrize(
    "commands",
    [
        [act()],
        [act(), RuntimeError("in next")],
        [act(), lambda tick: tick.observe() and act(np.nan)],
    ],
    ids=["done", "raises", "refused by the guard"],
)
def test_source_is_started_and_stopped_exactly_once(commands):
    world, script = World(), Script(commands)
    world.control.finish(world.control.submit(script))
    world.control.tick(3)
    assert script.calls.count("start") == 1
    assert script.calls.count("stop") == 1
    assert script.calls[-1] == "stop"


def test_source_whose_start_fails_is_stopped_and_its_error_reported():
    world = World()

    class Broken(Script):
        def start(self, tick):
            raise OSError("no such device")

    script = Broken([act()])
    run = world.control.finish(world.control.submit(script))
    assert isinstance(run.error, OSError)
    assert script.calls == ["stop"]
    assert world.robot.actions == []


def test_error_in_next_holds_in_the_same_tick_and_the_loop_goes_on():
    world = World()
    run = world.control.finish(world.control.submit(Script([act(), RuntimeError("boom")])))
    assert str(run.error) == "boom"
    assert [c.action is None for c in world.robot.commands] == [False, True]
    assert world.control.finish(world.control.submit(Script([act()]))).error is None


def test_error_in_stop_is_reported_when_nothing_went_wrong_before():
    world = World()

    class Broken(Script):
        def stop(self):
            raise OSError("cannot close")

    assert isinstance(world.control.finish(world.control.submit(Broken([]))).error, OSError)
    run = world.control.finish(world.control.submit(Broken([RuntimeError("first")])))
    assert str(run.error) == "first"


def test_error_in_act_holds_stops_the_source_and_the_loop_goes_on():
    world, script = World(), Script([act()] * 9)

    def fail(action):
        raise ConnectionError("bus off")

    world.robot.on_act = fail
    run = world.control.finish(world.control.submit(script))
    assert isinstance(run.error, ConnectionError)
    assert [c.action is None for c in world.robot.commands] == [False, True]
    assert world.state.robot_error == "ConnectionError: bus off"
    world.robot.on_act = None
    assert world.control.finish(world.control.submit(Script([act()]))).error is None


def test_action_that_the_robot_did_not_take_is_no_step_in_lockstep():
    world = World(pace="lockstep")

    def fail(action):
        raise ConnectionError("bus off")

    world.robot.on_act = fail
    run = world.control.finish(world.control.submit(Script([act()] * 9)))
    assert isinstance(run.error, ConnectionError)
    assert (world.state.step, run.report.steps) == (0, 0)


def test_error_in_observe_ends_the_source_that_asked():
    world = World()

    def fail():
        raise TimeoutError("camera")

    world.robot.on_observe = fail
    run = world.control.finish(world.control.submit(Script([lambda tick: tick.observe()])))
    assert isinstance(run.error, TimeoutError)


def test_error_in_hold_ends_the_source_and_holds_again_in_the_next_tick():
    world = World()

    def fail():
        raise ConnectionError("bus off")

    world.robot.on_hold = fail
    run = world.control.finish(world.control.submit(Script([hold()] * 5)))
    assert isinstance(run.error, ConnectionError)
    world.control.tick(2)
    assert len(world.robot.commands) == 3


@pytest.mark.parametrize("value", [np.nan, np.inf, 1.5])
def test_refused_action_never_reaches_the_robot(value):
    world = World(guard=ActionGuard([-1.0], [1.0]))
    run = world.control.finish(world.control.submit(Script([act(value)])))
    assert isinstance(run.error, InvalidArgumentError)
    assert world.robot.actions == []


def test_guard_of_another_width_than_the_robot_is_refused():
    with pytest.raises(InvalidArgumentError, match="width 1"):
        World(guard=ActionGuard([0.0, 0.0], [1.0, 1.0]))


def test_timeout_counts_from_the_first_tick_and_names_the_limit():
    world = World()
    run = world.control.submit(Script([act()] * 99), timeout_s=0.5)
    world.control.finish(run)
    assert isinstance(run.error, DeadlineExceededError)
    assert "timeout_s" in str(run.error)
    assert len(world.robot.actions) == 10


def test_c5_stop_while_act_blocks_a_second_allows_no_later_action():
    world = World()

    def block(action):
        world.clock.advance(0.5)
        world.control.estop("hand in the cell")
        world.clock.advance(0.5)

    world.robot.on_act = block
    run = world.control.submit(Script([act()] * 49))
    world.control.tick(200)
    assert len(world.robot.actions) == 1
    assert isinstance(run.error, EstopError)
    assert "hand in the cell" in str(run.error)


def test_c5_stop_while_the_source_thinks_discards_the_action_it_then_gives():
    world = World()

    def think(tick):
        world.control.estop("test")
        return act()

    world.control.submit(Script([think, act(), act()]))
    world.control.tick(20)
    assert world.robot.actions == []


def test_c5_stop_and_rearm_within_one_act_still_ends_the_source():
    world = World()

    def block(action):
        world.control.estop("test")
        world.control.rearm()

    world.robot.on_act = block
    run = world.control.submit(Script([act()] * 49))
    world.control.tick(200)
    assert len(world.robot.actions) == 1
    assert isinstance(run.error, EstopError)


def test_c5_source_accepted_before_the_stop_never_starts():
    world, script = World(), Script([act()] * 3)
    run = world.control.submit(script)
    world.control.estop("test")
    world.control.rearm()
    world.control.tick(20)
    assert script.calls == ["stop"]
    assert isinstance(run.error, EstopError)
    assert world.robot.actions == []


def test_c5_submit_after_the_stop_is_refused_until_rearmed():
    world = World()
    world.control.estop("test")
    with pytest.raises(EstopError):
        world.control.submit(Script([act()]))
    world.control.tick(5)
    world.control.rearm()
    world.control.finish(world.control.submit(Script([act(3)])))
    assert [a.tolist() for a in world.robot.actions] == [[3.0]]


def test_stopped_robot_holds_every_tick_in_real_time():
    world = World()
    world.control.estop("test")
    world.control.tick(4)
    assert len(world.robot.commands) == 4
    assert world.state.estopped


def test_cancelled_run_acts_no_more():
    world = World()
    run = world.control.submit(Script([act()] * 9))
    world.control.tick(2)
    world.control.cancel(run)
    world.control.tick(5)
    assert len(world.robot.actions) == 2
    assert run.is_finished


def test_sensors_are_read_once_per_tick_and_set_of_keys():
    world = World()

    def look(tick):
        assert tick.observe(["a", "b"]) is tick.observe(["b", "a"])
        tick.observe(["a"])
        return act()

    world.control.finish(world.control.submit(Script([look, look])))
    assert world.robot.num_observed == 4


@pytest.mark.parametrize("pace", ["realtime", "lockstep"])
@pytest.mark.parametrize("garbage", [np.zeros(1, np.float32), "act", lambda tick: None])
def test_source_that_gives_no_command_ends_by_name_and_the_loop_goes_on(garbage, pace):
    world = World(pace=pace)
    run = world.control.finish(world.control.submit(Script([act(1), garbage, act(2)])))
    assert isinstance(run.error, InvalidArgumentError)
    assert "script" in str(run.error)
    after = world.control.finish(world.control.submit(Script([act(3)])))
    assert after.error is None
    assert [float(c.action[0]) for c in world.robot.commands if c.action is not None] == [1.0, 3.0]


def test_something_that_is_no_source_is_refused_at_the_door():
    world = World()
    with pytest.raises(AttributeError, match="name"):
        world.control.submit(object())
    assert world.control.finish(world.control.submit(Script([act(1)]))).error is None
