"""When ticks are run, skipped and counted, in virtual time at 20 Hz."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.action_source import Act, Done
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.testing.recording_robot import RecordingRobot
from robot_sdk.testing.virtual_control import VirtualControl

PERIOD_S = 0.05


class StepNumbers:
    """Acts the number of the step for ever; `think_s` is added before it answers."""

    name = "numbers"

    def __init__(self, clock, kind="scripted", think_s=0.0):
        self.kind = kind
        self._clock = clock
        self._think_s = think_s

    def start(self, tick): ...

    def next(self, tick):
        self._clock.advance(self._think_s)
        return Act(np.array([tick.step], np.float32))

    def wait(self, timeout_s): ...

    def stop(self): ...


class World:
    def __init__(self):
        self.clock = VirtualClock()
        self.robot = RecordingRobot(self.clock)
        self.control = VirtualControl(self.robot, self.clock)

    def times_s(self):
        return [command.at_s for command in self.robot.commands]


def test_ticks_lie_on_the_absolute_grid_without_drift():
    world = World()
    world.control.tick(1200)
    assert world.times_s() == [k / 20.0 for k in range(1200)]


def test_b5_work_shorter_than_a_period_loses_no_tick():
    world = World()
    rng = np.random.default_rng(5)
    world.robot.on_act = lambda action: world.clock.advance(rng.uniform(0.005, 0.045))
    world.control.submit(StepNumbers(world.clock))
    world.control.tick(1200)
    assert world.times_s() == [k / 20.0 for k in range(1200)]
    assert world.control.state().overrun_ticks == 0


def test_b5_overrun_is_counted_and_not_made_up_in_a_burst():
    world = World()
    slow = iter([0.01, 0.27, 0.01])
    world.robot.on_act = lambda action: world.clock.advance(next(slow, 0.01))
    world.control.submit(StepNumbers(world.clock))
    world.control.tick(5)
    # Tick 1 took until 0.32: ticks 2 to 5 are gone, tick 6 (due 0.30) begins 20 ms late.
    assert world.times_s() == pytest.approx([0.0, 0.05, 0.32, 0.35, 0.40])
    assert [a.item() for a in world.robot.actions] == [0, 1, 6, 7, 8]
    assert world.control.state().overrun_ticks == 4


def test_stall_between_ticks_keeps_the_phase_of_the_grid():
    world = World()
    world.control.tick(2)
    world.clock.advance(3.033)
    world.control.tick(3)
    # At 3.083 the tick of 3.05 is more than half a period late; the next one is due at 3.10.
    assert world.times_s()[2:] == pytest.approx([3.10, 3.15, 3.20])
    assert world.control.state().step == 65


def test_command_that_falls_into_a_later_period_uses_it_up():
    world = World()
    world.control.submit(StepNumbers(world.clock, think_s=0.06))
    world.control.tick(3)
    assert world.times_s() == pytest.approx([0.06, 0.16, 0.26])


def test_policy_row_whose_step_is_over_is_held_back():
    world = World()
    world.control.submit(StepNumbers(world.clock, kind="policy", think_s=0.06))
    world.control.tick(3)
    assert world.robot.actions == []
    assert world.control.state().starved_ticks == 3


def test_lateness_is_what_the_clock_says():
    world = World()
    world.control.tick()
    world.clock.advance(0.06)
    world.control.tick()
    lateness = world.control.state().lateness
    assert lateness.num_ticks == 2
    assert lateness.max_s == pytest.approx(0.01)


def test_lateness_after_a_stall_counts_from_the_tick_that_was_due():
    world = World()
    world.control.tick()
    world.clock.advance(3.0)
    world.control.tick()
    assert world.control.state().lateness.max_s == pytest.approx(2.95)


def test_unknown_pace_names_the_known_ones():
    clock = VirtualClock()
    with pytest.raises(InvalidArgumentError, match="realtime, lockstep"):
        VirtualControl(RecordingRobot(clock), clock, pace="fast")


@given(
    work_s=st.lists(st.floats(0.0, 0.4), min_size=1, max_size=60),
    stalls_s=st.lists(st.floats(0.0, 0.4), min_size=1, max_size=60),
    think_s=st.floats(0.0, 0.12),
)
@settings(deadline=None)
def test_never_two_commands_in_one_period_and_every_step_accounted_for(work_s, stalls_s, think_s):
    world = World()
    work = iter(work_s)
    world.robot.on_act = lambda action: world.clock.advance(next(work, 0.0))
    world.control.submit(StepNumbers(world.clock, think_s=think_s))
    for stall_s in stalls_s:
        world.clock.advance(stall_s)
        world.control.tick()
    periods = [int(at_s / PERIOD_S + 1e-9) for at_s in world.times_s()]
    assert all(a < b for a, b in zip(periods, periods[1:], strict=False))
    state = world.control.state()
    assert state.step == state.commanded_steps + state.overrun_ticks
    assert state.commanded_steps == len(world.robot.commands)


class Phased(StepNumbers):
    """A policy source that wants the grid to go through a moment."""

    def __init__(self, clock, grid_phase_s):
        super().__init__(clock, kind="policy")
        self.grid_phase_s = grid_phase_s


def test_grid_moves_to_the_wanted_phase_before_the_first_tick_and_stays_there():
    world = World()
    world.control.tick(3)
    world.control.submit(Phased(world.clock, 9.98))
    for _ in range(6):
        world.control.tick()
    assert world.times_s() == pytest.approx([0.0, 0.05, 0.10, 0.18, 0.23, 0.28, 0.33, 0.38])
    # The numbers of the steps go on: the world did not skip one.
    assert [a.item() for a in world.robot.actions] == [3, 4, 5, 6, 7]


def test_grid_shift_is_counted_and_is_no_overrun():
    world = World()
    world.control.tick(3)
    world.control.submit(Phased(world.clock, 9.98))
    for _ in range(4):
        world.control.tick()
    state = world.control.state()
    assert (state.num_grid_shifts, state.overrun_ticks) == (1, 0)
    assert state.grid_shift_s == pytest.approx(0.03)
    assert state.lateness.max_s < 1e-9


def test_grid_that_has_the_wanted_phase_is_not_moved():
    world = World()
    world.control.tick(3)
    world.control.submit(Phased(world.clock, 9.95))
    world.control.tick(3)
    assert world.times_s() == pytest.approx([k / 20 for k in range(6)])
    assert world.control.state().num_grid_shifts == 0


def test_next_source_without_a_wish_keeps_the_grid_that_the_last_one_asked_for():
    world = World()
    run = world.control.submit(Phased(world.clock, 0.03))
    world.control.tick(2)
    world.control.cancel(run)
    world.control.tick()
    world.control.submit(StepNumbers(world.clock))
    world.control.tick(2)
    assert world.times_s() == pytest.approx([0.03 + k / 20 for k in range(4)])


@pytest.mark.parametrize("phase_s", [None, float("nan"), float("inf")])
def test_wish_that_is_no_moment_leaves_the_grid(phase_s):
    world = World()
    world.control.submit(Phased(world.clock, phase_s))
    world.control.tick(3)
    assert world.times_s() == pytest.approx([0.0, 0.05, 0.10])


class OneTick(Phased):
    """It is done after its first tick, so that a new tool begins in every tick."""

    def next(self, tick):
        self._ticks = getattr(self, "_ticks", 0) + 1
        return super().next(tick) if self._ticks == 1 else Done(None)


_MOMENTS_S = st.one_of(
    st.floats(-5, 5), st.sampled_from([None, float("nan"), float("inf"), 1e15, -1e15, 1e300, 0.0])
)


@given(st.lists(_MOMENTS_S, min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_tools_that_change_all_the_time_never_make_the_grid_burst_skip_or_stall(phases_s):
    world = World()
    for phase_s in phases_s:
        run = world.control.submit(OneTick(world.clock, phase_s))
        while not run.is_finished:
            world.control.tick()
    gaps_s = np.diff(world.times_s())
    assert (gaps_s >= PERIOD_S - 1e-9).all()
    # At most one shift, of less than a period, comes between two ticks.
    assert (gaps_s < 2 * PERIOD_S + 1e-9).all()
    assert world.control.state().overrun_ticks == 0


def test_grid_shift_under_an_emergency_stop_moves_nothing_and_the_next_tool_begins_as_usual():
    world = World()
    world.control.tick(2)
    run = world.control.submit(Phased(world.clock, 9.98))
    world.control.estop("test")
    for _ in range(3):
        world.control.tick()
    assert run.is_finished
    assert len(world.robot.actions) == 0
    world.control.rearm()
    world.control.submit(Phased(world.clock, 9.98))
    for _ in range(3):
        world.control.tick()
    assert len(world.robot.actions) == 3
    gaps_s = np.diff(world.times_s())
    assert (gaps_s >= PERIOD_S - 1e-9).all()
    assert (gaps_s < 2 * PERIOD_S).all()


@given(
    phase_s=st.floats(-5, 5),
    stall_s=st.floats(0, 0.6),
    think_s=st.floats(0, 0.04),
)
@settings(deadline=None, max_examples=60)
def test_no_period_holds_two_commands_whatever_is_shifted_and_however_late(
    phase_s, stall_s, think_s
):
    world = World()
    world.control.tick(2)
    world.clock.advance(stall_s)
    world.control.submit(Phased(world.clock, phase_s))
    for _ in range(8):
        world.control.tick()
        world.clock.advance(think_s)
    times_s = world.times_s()
    gaps_s = np.diff(times_s)
    assert (gaps_s >= PERIOD_S / 2 - 1e-9).all()
    # A shift alone delays by less than a period.
    assert (gaps_s < stall_s + 2.5 * PERIOD_S + think_s).all()
