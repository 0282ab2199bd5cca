"""The control thread itself, on the real clock. Bounded in time; no speed is asserted."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

from robot_sdk.action_source import Act, Done
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.control import ControlLoop
from robot_sdk.errors import (
    DeadlineExceededError,
    EstopError,
    InvalidArgumentError,
    LoopStoppedError,
)
from robot_sdk.testing.recording_robot import RecordingRobot

WAIT_S = 5.0


class Numbers:
    """Acts 0, 1, 2, ...; done after `count` of them, or never."""

    name = "numbers"
    kind = "scripted"

    def __init__(self, count=None):
        self._count = count
        self._next = 0
        self.begun = threading.Event()
        self.num_stopped = 0

    def start(self, tick):
        self.begun.set()

    def next(self, tick):
        if self._next == self._count:
            return Done(self._count)
        self._next += 1
        return Act(np.array([self._next - 1], np.float32))

    def wait(self, timeout_s): ...

    def stop(self):
        self.num_stopped += 1


class Background:
    """Calls a function on another thread and keeps what came of it."""

    def __init__(self, function):
        self.result = self.error = None

        def body():
            try:
                self.result = function()
            except Exception as error:
                self.error = error

        self._thread = threading.Thread(target=body, daemon=True)
        self._thread.start()

    def join(self):
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        return self


@pytest.fixture
def robot():
    return RecordingRobot(SYSTEM_CLOCK, control_hz=200.0)


@pytest.mark.parametrize("pace", ["realtime", "lockstep"])
def test_run_returns_the_report_of_a_finished_source(robot, pace):
    with ControlLoop(robot, pace=pace) as loop:
        report = loop.run(Numbers(5))
        assert loop.last_report is report
    assert (report.result, report.acted, report.steps) == (5, 5, 5)
    assert [a.item() for a in robot.actions] == [0, 1, 2, 3, 4]


def test_only_the_control_thread_calls_the_robot(robot):
    with ControlLoop(robot) as loop:
        control_thread = loop.call(lambda _: threading.get_ident())
        loop.run(Numbers(3))
        loop.call(lambda r: r.observe())
    assert robot.thread_ids == {control_thread}
    assert control_thread != threading.get_ident()


def test_call_hands_over_the_value_and_the_exception(robot):
    def fail(_):
        raise KeyError("no such object")

    with ControlLoop(robot, pace="lockstep") as loop:
        assert loop.call(lambda r: r.action_dim) == 1
        with pytest.raises(KeyError, match="no such object"):
            loop.call(fail)
        assert loop.run(Numbers(1)).acted == 1


def test_call_is_served_while_a_source_runs(robot):
    with ControlLoop(robot) as loop:
        source = Numbers()
        running = Background(lambda: loop.run(source))
        assert source.begun.wait(WAIT_S)
        assert loop.call(lambda r: r.control_hz) == 200.0
        loop.estop("test over")
        assert isinstance(running.join().error, EstopError)


@pytest.mark.parametrize("pace", ["realtime", "lockstep"])
def test_c5_stop_while_act_blocks_ends_the_run_without_a_later_action(robot, pace):
    blocked, go_on = threading.Event(), threading.Event()

    def block(action):
        blocked.set()
        assert go_on.wait(WAIT_S)

    robot.on_act = block
    with ControlLoop(robot, pace=pace) as loop:
        source = Numbers()
        running = Background(lambda: loop.run(source))
        assert blocked.wait(WAIT_S)
        loop.estop("hand in the cell")
        go_on.set()
        assert isinstance(running.join().error, EstopError)
        with pytest.raises(EstopError, match="hand in the cell"):
            loop.run(Numbers(1))
        with pytest.raises(EstopError):
            loop.call(lambda r: r.act(np.zeros(1, np.float32)))
        loop.rearm()
        assert len(robot.actions) == 1
        assert loop.run(Numbers(1)).acted == 1
    assert source.num_stopped == 1


def test_c5_call_from_before_a_stop_is_refused_also_after_rearming(robot, monkeypatch):
    blocked, accepted, go_on = threading.Event(), threading.Event(), threading.Event()
    moved = []

    def block(action):
        blocked.set()
        assert go_on.wait(WAIT_S)

    robot.on_act = block
    with ControlLoop(robot, pace="lockstep") as loop:
        running = Background(lambda: loop.run(Numbers()))
        assert blocked.wait(WAIT_S)
        enter = loop._estop.enter
        monkeypatch.setattr(loop._estop, "enter", lambda: (enter(), accepted.set())[0])
        calling = Background(lambda: loop.call(moved.append))
        assert accepted.wait(WAIT_S)
        loop.estop("test")
        loop.rearm()
        go_on.set()
        assert isinstance(calling.join().error, EstopError)
        assert isinstance(running.join().error, EstopError)
    assert moved == []


def test_robot_exception_reaches_the_caller_and_the_loop_lives(robot):
    def fail(action):
        raise ConnectionError("bus off")

    with ControlLoop(robot) as loop:
        robot.on_act = fail
        with pytest.raises(ConnectionError, match="bus off"):
            loop.run(Numbers(5))
        assert loop.last_report.acted == 0
        robot.on_act = None
        assert loop.run(Numbers(2)).acted == 2


def test_timeout_ends_the_source(robot):
    with ControlLoop(robot) as loop:
        source = Numbers()
        with pytest.raises(DeadlineExceededError):
            loop.run(source, timeout_s=0.05)
        assert source.num_stopped == 1
        assert loop.run(Numbers(1)).acted == 1


def test_caller_that_is_interrupted_leaves_nothing_moving(robot, monkeypatch):
    def interrupt(self, run, timeout_s):
        assert run.source.begun.wait(WAIT_S)
        raise KeyboardInterrupt

    with ControlLoop(robot) as loop:
        source = Numbers()
        monkeypatch.setattr(ControlLoop, "_await", interrupt)
        with pytest.raises(KeyboardInterrupt):
            loop.run(source)
        monkeypatch.undo()
        # A call is served between ticks, so two of them are at least one tick apart at most.
        while not source.num_stopped:
            loop.call(lambda _: None)
        assert loop.run(Numbers(1)).acted == 1


def test_refused_source_is_stopped_all_the_same(robot):
    loop, sources = ControlLoop(robot, pace="lockstep"), [Numbers(1) for _ in range(3)]
    with pytest.raises(LoopStoppedError):
        loop.run(sources[0])
    with loop:
        loop.estop("test")
        with pytest.raises(EstopError):
            loop.run(sources[1])
    with pytest.raises(LoopStoppedError):
        loop.run(sources[2])
    assert [source.num_stopped for source in sources] == [1, 1, 1]


def test_leaving_the_loop_ends_what_still_runs(robot):
    source = Numbers()
    loop = ControlLoop(robot)
    with loop:
        running = Background(lambda: loop.run(source))
        assert source.begun.wait(WAIT_S)
    assert isinstance(running.join().error, LoopStoppedError)
    assert source.num_stopped == 1
    assert robot.commands[-1].action is None
    with pytest.raises(LoopStoppedError):
        loop.run(Numbers(1))
    with pytest.raises(LoopStoppedError):
        loop.call(lambda _: None)


def test_loop_that_was_not_entered_says_how_to_use_it(robot):
    with pytest.raises(LoopStoppedError, match="with ControlLoop"):
        ControlLoop(robot).run(Numbers(1))


def test_loop_is_used_once(robot):
    loop = ControlLoop(robot, pace="lockstep")
    with loop:
        pass
    with pytest.raises(InvalidArgumentError, match="make a new one"):
        loop.__enter__()


def test_run_on_the_control_thread_is_refused_instead_of_waiting_for_itself(robot):
    with ControlLoop(robot, pace="lockstep") as loop:
        with pytest.raises(InvalidArgumentError, match="control thread"):
            loop.call(lambda _: loop.run(Numbers(1)))


def test_on_state_gets_the_counters_and_may_not_stop_the_loop(robot, caplog):
    seen = []

    def on_state(state):
        seen.append(state)
        if len(seen) == 3:
            raise RuntimeError("in the callback")

    with caplog.at_level(logging.ERROR), ControlLoop(robot, on_state=on_state) as loop:
        report = loop.run(Numbers(10))
    assert report.acted == 10
    assert len(seen) == 3
    assert "on_state raised" in caplog.text
    assert [s.step for s in seen] == sorted(s.step for s in seen)


def test_realtime_loop_holds_when_idle_and_accounts_for_every_step(robot):
    ticked = threading.Semaphore(0)
    robot.on_hold = ticked.release
    with ControlLoop(robot) as loop:
        for _ in range(5):
            assert ticked.acquire(timeout=WAIT_S)
        state = loop.call(lambda _: loop.state())
    assert state.idle_ticks >= 5
    assert state.step == state.commanded_steps + state.overrun_ticks
    assert state.lateness.num_ticks == state.commanded_steps


def test_robot_that_is_too_slow_for_its_rate_is_named_in_the_log(robot, caplog):
    # Three periods in every act(), counted in the loop's own ticks rather than timed.
    robot.on_act = lambda _: SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.015)
    with ControlLoop(robot) as loop:
        report = loop.run(Numbers(10))
    assert report.overrun_ticks > 0
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "took longer than the period of 5 ms" in record.getMessage()


def test_call_that_takes_its_time_is_not_blamed_on_the_robot(caplog):
    # A slow rate, so that a machine that stalls for a moment skips no tick by itself.
    robot = RecordingRobot(SYSTEM_CLOCK, control_hz=4.0)
    ticked = threading.Semaphore(0)
    robot.on_hold = ticked.release
    with ControlLoop(robot) as loop:
        assert ticked.acquire(timeout=WAIT_S)
        loop.call(lambda _: SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.45))
        assert ticked.acquire(timeout=WAIT_S)
        state = loop.call(lambda _: loop.state())
    assert state.overrun_ticks > 0
    assert "skipped" not in caplog.text
