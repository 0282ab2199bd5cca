"""The policy source under the control loop's decisions, in virtual time at 20 Hz."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.action_guard import ActionGuard
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import (
    BadModelOutputError,
    DeadlineExceededError,
    EpisodeLostError,
    EstopError,
    InvalidArgumentError,
    ObservationMismatchError,
    ServerUnavailableError,
    StaleObservationError,
)
from robot_sdk.policy_source import MAX_BAD_CHUNKS, ChunkRecord, PolicySource
from robot_sdk.request_timing import RequestTiming
from robot_sdk.testing.recording_robot import RecordingRobot
from robot_sdk.testing.virtual_control import VirtualControl
from robot_sdk.testing.virtual_policy import VirtualPolicyStream, plain_spec

PERIOD_S = 0.05


class World:
    """A robot at 20 Hz, a policy in memory, and everything between them."""

    def __init__(self, *, pace="realtime", merge="replace", deadline_s=None, spec=None, **stream):
        self.clock = VirtualClock()
        self.robot = RecordingRobot(self.clock)
        self.control = VirtualControl(self.robot, self.clock, pace=pace)
        self.spec = spec or plain_spec()
        self.stream_options = stream
        self.merge = merge
        self.deadline_s = deadline_s
        self.records: list[ChunkRecord] = []

    def source(self, *, max_steps=60, stream=None, **options) -> PolicySource:
        self.stream = stream or VirtualPolicyStream(self.spec, self.clock, **self.stream_options)
        return PolicySource(
            self.stream,
            ChunkBuffer(self.merge),
            RequestTiming.from_spec(self.spec, deadline_s=self.deadline_s),
            max_steps=max_steps,
            on_chunk=self.records.append,
            **options,
        )

    def run(self, **options):
        """Runs a source to its end and returns its report; raises what ended it."""
        run = self.control.finish(self.control.submit(self.source(**options)))
        if run.error is not None:
            raise run.error
        return run.report

    def commands(self) -> list[int | None]:
        """Per tick the number that was acted, None for a hold."""
        return [None if c.action is None else int(c.action[0]) for c in self.robot.commands]

    def held_ticks(self) -> list[int]:
        return [tick for tick, value in enumerate(self.commands()) if value is None]


def _assert_every_action_belongs_to_its_tick(world: World) -> None:
    """With no overruns, command k of the loop is step k."""
    for tick, value in enumerate(world.commands()):
        assert value is None or value == tick


# --- exact tick arithmetic: horizon 10, executed 5, 20 Hz -----------------------------------------


def test_latency_zero_starves_no_tick():
    world = World(latency_s=0.0)
    report = world.run()
    assert (report.start_wait_ticks, report.starved_ticks, report.acted) == (0, 0, 60)
    assert world.commands()[:60] == list(range(60))
    assert [o.control_step for o in world.stream.observations][:6] == [0, 1, 6, 11, 16, 21]


def test_latency_100_ms_waits_two_ticks_at_the_start_and_starves_none():
    world = World(latency_s=0.1)
    report = world.run()
    assert (report.start_wait_ticks, report.starved_ticks, report.acted) == (2, 0, 58)
    assert world.commands()[:60] == [None, None, *range(2, 60)]
    assert [o.control_step for o in world.stream.observations][:5] == [0, 2, 7, 12, 17]


def test_latency_400_ms_acts_two_of_every_eight_ticks():
    world = World(latency_s=0.4)
    report = world.run()
    acted = [tick for tick in range(60) if tick >= 8 and tick % 8 in (0, 1)]
    assert world.held_ticks() == [tick for tick in range(61) if tick not in acted]
    assert (report.start_wait_ticks, report.starved_ticks, report.acted) == (8, 38, 14)
    _assert_every_action_belongs_to_its_tick(world)


def test_latency_of_a_whole_chunk_executes_nothing_and_says_so():
    world = World(latency_s=0.5, deadline_s=2.0)
    report = world.run()
    assert (report.start_wait_ticks, report.starved_ticks, report.acted) == (10, 50, 0)
    assert {record.outcome for record in world.records[:-1]} == {"late"}
    assert {record.dropped_rows for record in world.records[:-1]} == {10}


def test_lockstep_executes_the_set_number_of_rows_whatever_the_latency():
    for latency_s in (0.0, 0.1, 0.4, 3.0):
        world = World(pace="lockstep", latency_s=latency_s)
        report = world.run(max_steps=23)
        assert world.commands() == list(range(23))
        assert (report.starved_ticks, report.start_wait_ticks) == (0, 0)
        assert [o.control_step for o in world.stream.observations] == [0, 5, 10, 15, 20]


# --- field reports --------------------------------------------------------------------------------


def test_b1_first_action_of_the_next_instruction_is_its_own():
    world = World(spec=plain_spec(horizon=50, executed_steps=50))

    def constant(value):
        return lambda _: np.full((50, 1), value, np.float32)

    first = VirtualPolicyStream(world.spec, world.clock, answer=constant(1), latency_s=0.1)
    buffer = ChunkBuffer()
    run = world.control.submit(
        PolicySource(first, buffer, RequestTiming.from_spec(world.spec), max_steps=12)
    )
    world.control.finish(run)
    second = VirtualPolicyStream(world.spec, world.clock, answer=constant(2), latency_s=0.1)
    begin = len(world.commands())
    run = world.control.submit(
        PolicySource(second, buffer, RequestTiming.from_spec(world.spec), max_steps=12)
    )
    world.control.finish(run)
    assert set(world.commands()[:begin]) == {None, 1}
    assert world.commands()[begin:-1] == [None, None] + [2] * 10


def test_b1_rows_left_in_a_buffer_are_not_executed_by_the_next_source():
    world = World(latency_s=0.1)
    buffer = ChunkBuffer()
    buffer.merge(0, np.full((50, 1), 77, np.float32), now_step=0)
    stream = VirtualPolicyStream(world.spec, world.clock, latency_s=0.1)
    source = PolicySource(stream, buffer, RequestTiming.from_spec(world.spec), max_steps=5)
    world.control.finish(world.control.submit(source))
    assert world.commands() == [None, None, 2, 3, 4, None]


@pytest.mark.parametrize("merge", ["replace", "linear_blend", "temporal_ensemble"])
@pytest.mark.parametrize("delay_ticks", [0, 1, 5, 9])
def test_b2_executed_sequence_has_no_repeat_and_no_gap(delay_ticks, merge):
    spec = plain_spec(horizon=20, executed_steps=10)
    world = World(spec=spec, merge=merge, latency_s=delay_ticks * PERIOD_S)
    world.run(max_steps=120)
    assert world.commands()[:120] == [None] * delay_ticks + list(range(delay_ticks, 120))


@pytest.mark.parametrize("merge", ["replace", "linear_blend", "temporal_ensemble"])
@given(delays=st.lists(st.sampled_from([0, 1, 5, 9]), min_size=1, max_size=40), jitter=st.data())
@settings(max_examples=25, deadline=None)
def test_b2_jittered_delays_keep_the_sequence_without_repeat_and_gap(merge, delays, jitter):
    spec = plain_spec(horizon=20, executed_steps=10)

    def latency_s(observation):
        share = jitter.draw(st.floats(-0.4, 0.4))
        ticks = delays[observation.sequence % len(delays)] + share
        return max(0.0, ticks * PERIOD_S)

    world = World(spec=spec, merge=merge, latency_s=latency_s)
    report = world.run(max_steps=150)
    acted = [value for value in world.commands() if value is not None]
    # Delays up to nine ticks and a half leave room: ten executed rows, ten to spare.
    assert report.starved_ticks == 0
    assert acted == list(range(acted[0], 150))


@pytest.mark.parametrize("executed_steps", [50, 25])
def test_b3_chunk_of_50_with_300_ms_inference_has_no_idle_tick_after_the_first(executed_steps):
    # RecordingRobot's observation never changes.
    spec = plain_spec(horizon=50, executed_steps=executed_steps)
    world = World(spec=spec, latency_s=0.3)
    report = world.run(max_steps=1000)
    assert world.held_ticks() == [0, 1, 2, 3, 4, 5, 1000]
    assert report.starved_ticks == 0


def test_b4_drained_buffer_starves_holds_and_resumes():
    def latency_s(observation):
        return 4.0 if observation.sequence == 3 else 0.1

    world = World(latency_s=latency_s, deadline_s=60.0)
    report = world.run(max_steps=200)
    acted = [tick for tick, value in enumerate(world.commands()) if value is not None]
    gap = max(b - a for a, b in zip(acted, acted[1:], strict=False))
    asked_at = world.stream.observations[3].control_step
    # Rows up to asked_at + 4 were there; the answer after 80 ticks is late as a whole, and the
    # one asked for then takes two ticks.
    assert gap == 80 + 2 - 4
    assert report.starved_ticks == gap - 1
    assert acted[-1] == 199
    assert asked_at + 82 in acted
    _assert_every_action_belongs_to_its_tick(world)


def test_a4_one_answer_beyond_the_deadline_does_not_end_control():
    def latency_s(observation):
        return 5.0 if observation.sequence == 1 else 0.1

    spec = plain_spec(horizon=50, executed_steps=25)
    world = World(spec=spec, latency_s=latency_s, deadline_s=1.0)
    report = world.run(max_steps=200)
    (given_up,) = [r for r in world.records if r.outcome == "given_up"]
    assert given_up.sequence == 1
    assert isinstance(given_up.error, DeadlineExceededError)
    assert report.result.num_failures == 1
    assert report.starved_ticks == 0
    assert world.commands()[:200] == [None, None, *range(2, 200)]


def test_a4_default_deadline_gives_up_when_no_row_can_be_valid_any_more():
    def latency_s(observation):
        return 5.0 if observation.sequence == 2 else 0.1

    world = World(latency_s=latency_s)
    report = world.run(max_steps=100)
    # Asked at step 7 with rows to 11; given up at step 17, answered at step 19.
    assert world.stream.observations[2].control_step == 7
    assert world.held_ticks() == [0, 1, *range(12, 19), 100]
    assert report.starved_ticks == 7


def test_a4_deadlines_that_the_stream_reports_do_not_add_growing_pauses():
    late = DeadlineExceededError("no answer in time")
    world = World()
    stream = VirtualPolicyStream(
        world.spec,
        world.clock,
        answer=lambda o: late if o.sequence < 6 else np.zeros((10, 1), np.float32),
        latency_s=lambda o: 0.5 if o.sequence < 6 else 0.1,
    )
    report = world.run(stream=stream, max_steps=80)
    assert [o.control_step for o in stream.observations][:7] == [0, 10, 20, 30, 40, 50, 60]
    assert [r.outcome for r in world.records][:7] == ["given_up"] * 6 + ["merged"]
    assert report.start_wait_ticks == 62


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((0, 1), np.float32),
        np.zeros(10, np.float32),
        np.zeros((10, 2), np.float32),
        np.zeros((8, 1), np.float32),
        np.full((10, 1), np.nan, np.float32),
        np.float32(0.0),
    ],
    ids=["empty", "one-dimensional", "too wide", "short", "nan", "zero-dimensional"],
)
def test_a14_malformed_chunk_is_never_executed_and_named_after_three_in_a_row(bad):
    world = World(answer=lambda _: bad, latency_s=0.1)
    with pytest.raises(BadModelOutputError):
        world.run()
    assert set(world.commands()) == {None}
    assert [record.outcome for record in world.records] == ["failed"] * MAX_BAD_CHUNKS


def test_a14_one_malformed_chunk_is_held_through_and_asked_again():
    spec = plain_spec()

    def answer(observation):
        rows = 8 if observation.sequence == 0 else 10
        return observation.control_step + np.arange(rows, dtype=np.float32)[:, np.newaxis]

    world = World(spec=spec, answer=answer, latency_s=0.1)
    report = world.run()
    assert world.commands()[:60] == [None] * 4 + list(range(4, 60))
    assert report.result.num_failures == 1
    assert isinstance(report.result.last_error, BadModelOutputError)


def test_a14_good_chunk_in_between_keeps_occasional_bad_ones_from_ending_the_source():
    def answer(observation):
        rows = 10 if observation.sequence % 3 == 2 else 8
        return observation.control_step + np.arange(rows, dtype=np.float32)[:, np.newaxis]

    report = World(answer=answer, latency_s=0.05).run(max_steps=200)
    assert report.result.ended_by == "max_steps"
    assert report.result.num_failures > MAX_BAD_CHUNKS


def test_a14_chunks_that_the_server_refused_end_the_source_after_three_in_a_row():
    refused = BadModelOutputError("policy p returned actions that may not be used")
    world = World(answer=lambda _: refused, latency_s=0.1)
    with pytest.raises(BadModelOutputError, match="may not be used"):
        world.run(max_steps=500)
    assert set(world.commands()) == {None}
    assert [record.outcome for record in world.records] == ["failed"] * MAX_BAD_CHUNKS


def test_a14_refusals_of_the_server_and_of_the_guard_add_up():
    def answer(observation):
        if observation.sequence % 2:
            return BadModelOutputError("refused by the server")
        return np.zeros((8, 1), np.float32)

    world = World(answer=answer, latency_s=0.1)
    with pytest.raises(BadModelOutputError):
        world.run(max_steps=500)
    assert len(world.records) == MAX_BAD_CHUNKS


def test_a14_good_chunk_in_between_forgives_what_the_server_refused():
    def answer(observation):
        if observation.sequence % 3 != 2:
            return BadModelOutputError("refused by the server")
        return observation.control_step + np.arange(10, dtype=np.float32)[:, np.newaxis]

    report = World(answer=answer, latency_s=0.05).run(max_steps=200)
    assert report.result.ended_by == "max_steps"
    assert report.result.num_failures > MAX_BAD_CHUNKS


def test_a14_value_beyond_the_limits_of_the_spec_is_refused():
    world = World(spec=plain_spec(limit=1.0), answer=lambda _: np.full((10, 1), 1.5, np.float32))
    with pytest.raises(BadModelOutputError, match=r"row 0, a0.*1\.5"):
        world.run()
    assert set(world.commands()) == {None}


def test_a14_guard_that_clips_executes_the_limit():
    world = World(spec=plain_spec(limit=1.0), answer=lambda _: np.full((10, 1), 7.0, np.float32))
    world.run(guard=ActionGuard.from_spec(world.spec, on_limit="clip"), max_steps=10)
    assert set(world.commands()[:10]) == {1}


def test_a16_frozen_camera_stops_inference_and_a_new_frame_resumes_it():
    world = World(latency_s=0.1)
    frozen = range(40, 80)  # 2 s at 20 Hz

    def frame(tick: int) -> int:
        return min(tick, frozen.start) if tick < frozen.stop else tick

    run = world.control.submit(world.source(max_steps=120))
    for tick in range(121):
        world.robot.frame_ids = {"front": tick, "wrist": frame(tick)}
        world.control.tick()
    asked = [o.control_step for o in world.stream.observations]
    last_before = max(step for step in asked if step < frozen.stop)
    assert last_before < frozen.start + 5
    assert min(step for step in asked if step > last_before) == frozen.stop
    # The rows that were there are executed, then it holds until a chunk of a new frame is here.
    assert world.held_ticks() == [0, 1, *range(last_before + 10, frozen.stop + 2), 120]
    assert run.report.result.num_failures == 1
    assert isinstance(run.report.result.last_error, StaleObservationError)


def test_a16_frozen_camera_in_lockstep_ends_the_source_at_once():
    world = World(pace="lockstep")
    world.robot.frame_ids = {"wrist": 3}
    with pytest.raises(StaleObservationError, match="wrist"):
        world.run()
    assert world.commands() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("blackout_s", [3.0, 3.01, 2.99])
def test_b6_after_a_blackout_of_the_robot_expired_rows_are_dropped(blackout_s):
    spec = plain_spec(horizon=50, executed_steps=50)
    world = World(spec=spec, latency_s=0.1)
    run = world.control.submit(world.source(max_steps=200))
    world.control.tick(20)
    world.clock.advance(blackout_s)
    before = len(world.robot.commands)
    world.control.finish(run)
    times_s = [command.at_s for command in world.robot.commands[before:]]
    assert all(b - a > PERIOD_S / 2 for a, b in zip(times_s, times_s[1:], strict=False))
    # The grid kept its phase: a row is executed at the time it was meant for.
    for command in world.robot.commands:
        if command.action is not None:
            assert command.at_s == pytest.approx(command.action[0] * PERIOD_S, abs=PERIOD_S / 2)
    assert run.report.overrun_ticks in (59, 60)
    assert run.report.steps + run.report.overrun_ticks == 200


def test_b6_after_a_blackout_of_the_server_only_current_rows_are_executed():
    black = (1.0, 4.0)
    world = World(deadline_s=60.0)

    def latency_s(_):
        now_s = world.clock.now_s()
        return black[1] - now_s if black[0] <= now_s < black[1] else 0.1

    run = world.control.submit(
        world.source(
            max_steps=150,
            stream=VirtualPolicyStream(world.spec, world.clock, latency_s=latency_s),
        )
    )
    world.control.finish(run)
    times_s = [command.at_s for command in world.robot.commands]
    assert times_s == [pytest.approx(k * PERIOD_S) for k in range(len(times_s))]
    _assert_every_action_belongs_to_its_tick(world)
    assert world.commands()[149] == 149


def test_c5_emergency_stop_with_49_rows_in_the_buffer_executes_none_of_them():
    world = World(spec=plain_spec(horizon=50, executed_steps=50))
    run = world.control.submit(world.source())
    world.control.tick()
    assert world.control.state().buffered_steps == 49
    world.control.estop("test")
    world.control.tick(100)
    world.control.rearm()
    world.control.tick(100)
    assert len(world.robot.actions) == 1
    assert isinstance(run.error, EstopError)
    assert world.stream.num_closed == 1


# --- errors and ends ------------------------------------------------------------------------------


def test_server_away_for_minutes_is_held_through():
    world = World()
    away = (1.0, 151.0)

    def answer(observation):
        if away[0] <= world.clock.now_s() < away[1]:
            return ServerUnavailableError("connection refused")
        return observation.control_step + np.arange(10, dtype=np.float32)[:, np.newaxis]

    stream = VirtualPolicyStream(world.spec, world.clock, answer=answer, latency_s=0.05)
    report = world.run(max_steps=4000, stream=stream)
    acted_s = [c.at_s for c in world.robot.commands if c.action is not None]
    assert min(at_s for at_s in acted_s if at_s > 2.0) <= away[1] + 2.0
    assert report.result.num_failures < 200
    _assert_every_action_belongs_to_its_tick(world)


def test_lost_episode_ends_the_source_with_its_error():
    world = World(latency_s=0.1)
    run = world.control.submit(world.source())
    world.control.tick(10)
    world.stream.lose_episode(EpisodeLostError("the server restarted"))
    num_actions = len(world.robot.actions)
    world.control.tick(10)
    assert isinstance(run.error, EpisodeLostError)
    assert len(world.robot.actions) == num_actions
    assert world.stream.num_closed == 1


def test_persistent_failure_ends_the_source_with_its_error():
    error = ObservationMismatchError("missing", field="images/wrist")
    world = World(answer=lambda _: error)
    with pytest.raises(ObservationMismatchError, match="images/wrist"):
        world.run()
    assert len(world.stream.observations) == 1


def test_pause_named_by_the_server_is_kept():
    overloaded = ServerUnavailableError("busy", retry_after_s=0.5)
    world = World(answer=lambda _: overloaded)
    world.run(max_steps=40)
    assert [o.control_step for o in world.stream.observations] == [0, 10, 20, 30]


def test_chunk_that_answers_another_step_is_refused():
    world = World()
    stream = VirtualPolicyStream(world.spec, world.clock)
    real_poll = stream.poll

    def poll():
        return [type(a)(**{**a.__dict__, "control_step": a.control_step + 1}) for a in real_poll()]

    stream.poll = poll
    with pytest.raises(BadModelOutputError, match="must answer step"):
        world.run(stream=stream)
    assert set(world.commands()) == {None}


def test_lockstep_wait_without_answer_ends_with_a_named_limit():
    world = World(pace="lockstep", answer=lambda _: None)
    with pytest.raises(DeadlineExceededError, match=r"step 0 within lockstep_timeout_s.*2\.0"):
        world.run(lockstep_timeout_s=2.0)
    assert world.clock.now_s() == pytest.approx(2.0, abs=0.2)
    assert world.robot.commands == []


def test_lockstep_wait_names_the_failure_that_it_met():
    world = World(pace="lockstep", answer=lambda _: ServerUnavailableError("connection refused"))
    with pytest.raises(DeadlineExceededError, match="connection refused"):
        world.run(lockstep_timeout_s=2.0)


def test_stop_condition_ends_the_source_with_its_value():
    world = World()
    report = world.run(stop_when=lambda tick: "held" if tick.step == 7 else None)
    assert report.result.ended_by == "stop_when"
    assert report.result.value == "held"
    assert report.acted == 7


def test_step_budget_ends_the_source_after_exactly_that_many_steps():
    report = World(latency_s=0.1).run(max_steps=33)
    assert report.result.ended_by == "max_steps"
    assert report.steps == 33
    assert report.result.steps == 33


def test_stop_condition_that_raises_ends_the_source_and_stops_the_stream():
    world = World()

    def broken(_):
        raise ZeroDivisionError("in stop_when")

    with pytest.raises(ZeroDivisionError):
        world.run(stop_when=broken)
    assert world.stream.num_closed == 1


def test_every_observation_gets_exactly_one_record():
    def answer(observation):
        if observation.sequence % 4 == 1:
            return ServerUnavailableError("no")
        if observation.sequence % 4 == 2:
            return None
        return np.zeros((10, 1), np.float32)

    world = World(answer=answer, latency_s=0.1)
    world.run(max_steps=300)
    assert [r.sequence for r in world.records] == [o.sequence for o in world.stream.observations]
    assert {r.outcome for r in world.records} >= {"merged", "failed", "given_up"}


def test_observation_that_cannot_be_sent_ends_the_source_and_has_its_record():
    world = World()
    stream = VirtualPolicyStream(world.spec, world.clock)
    refused = ObservationMismatchError("missing", field="observation/state")

    def send(observation):
        raise refused

    stream.send = send
    with pytest.raises(ObservationMismatchError):
        world.run(stream=stream)
    assert [(r.outcome, r.error) for r in world.records] == [("failed", refused)]


def test_callbacks_that_raise_are_logged_and_do_not_stop_the_robot(caplog):
    world = World(latency_s=0.1)
    calls = []

    def broken(argument):
        calls.append(argument)
        raise RuntimeError("in telemetry")

    world.records = type("Broken", (), {"append": staticmethod(broken)})()
    report = world.run(max_steps=30, new_trace=broken)
    assert report.starved_ticks == 0
    assert len(calls) == 2
    assert "on_chunk raised" in caplog.text
    assert "new_trace raised" in caplog.text


def test_record_of_a_merged_chunk_says_where_it_was_applied():
    world = World(latency_s=0.1)
    world.run(max_steps=10)
    first = world.records[0]
    assert (first.sequence, first.control_step, first.outcome) == (0, 0, "merged")
    assert (first.applied_step, first.dropped_rows, first.rows) == (2, 2, 10)
    assert (first.sent_s, first.received_s, first.error) == (0.0, pytest.approx(0.1), None)


def test_observation_tells_the_server_what_the_robot_still_has():
    world = World(latency_s=0.1)
    world.run(max_steps=20)
    assert [o.buffered_steps for o in world.stream.observations][:4] == [0, 8, 5, 5]
    assert world.stream.observations[0].deadline_s == 0.5


def test_chunk_of_just_under_five_ticks_starves_no_tick_and_executes_rows_5_to_9():
    world = World(latency_s=0.236)
    report = world.run(max_steps=100)
    assert (report.start_wait_ticks, report.starved_ticks, report.acted) == (5, 0, 95)
    assert [o.control_step for o in world.stream.observations] == list(range(0, 100, 5))
    _assert_every_action_belongs_to_its_tick(world)


def test_first_observation_is_taken_when_the_server_would_like_it():
    world = World(latency_s=0.236)
    world.control.tick(2)  # idle, until 0.05
    report = world.run(max_steps=40, first_observation_s=0.28)
    assert world.control.state().num_grid_shifts == 1
    assert world.control.state().grid_shift_s == pytest.approx(0.03)
    # The grid goes through 0.13; the observation of step 2 + 3 is taken at 0.28.
    assert world.robot.commands[2].at_s == pytest.approx(0.13)
    assert [o.control_step for o in world.stream.observations][:3] == [5, 10, 15]
    assert (report.starved_ticks, report.overrun_ticks) == (0, 0)
    _assert_every_action_belongs_to_its_tick(world)


def test_wish_for_the_first_observation_moves_nothing_in_lockstep():
    world = World(pace="lockstep", latency_s=0.236)
    world.run(max_steps=10, first_observation_s=0.28)
    assert world.control.state().num_grid_shifts == 0
    assert [o.control_step for o in world.stream.observations] == [0, 5]


def _committed(world):
    return [
        None if o.committed_actions is None else o.committed_actions[:, 0].tolist()
        for o in world.stream.observations
    ]


def test_rows_that_are_executed_whatever_the_answer_is_travel_with_the_observation():
    spec = dataclasses.replace(plain_spec(), supports_committed_actions=True)
    world = World(spec=spec, latency_s=0.1)
    world.run(max_steps=30)
    steps = [o.control_step for o in world.stream.observations]
    committed = _committed(world)
    # Nothing at the start; one row while the latency is unknown; then two rows, 100 ms.
    assert committed[:2] == [None, [float(steps[1])]]
    assert committed[2:] == [[float(s), float(s + 1)] for s in steps[2:]]


def test_committed_rows_are_the_ones_that_are_then_executed():
    spec = dataclasses.replace(plain_spec(), supports_committed_actions=True)
    rng = np.random.default_rng(3)
    world = World(
        spec=spec,
        merge="linear_blend",
        latency_s=0.13,
        answer=lambda _: rng.normal(size=(10, 1)).astype(np.float32),
    )
    world.run(max_steps=60)
    executed = [None if c.action is None else float(c.action[0]) for c in world.robot.commands]
    for observation in world.stream.observations[2:-1]:
        rows = observation.committed_actions[:, 0].tolist()
        step = observation.control_step
        assert executed[step : step + len(rows)] == rows
        assert len(rows) == 3


def test_policy_without_use_for_committed_rows_gets_none():
    world = World(latency_s=0.1)
    world.run(max_steps=30)
    assert set(map(str, _committed(world))) == {"None"}


def test_only_the_required_keys_of_the_policy_are_read_by_default():
    world = World()
    asked = []
    real_observe = world.robot.observe
    world.robot.observe = lambda keys=None: asked.append(keys) or real_observe(keys)
    world.run(max_steps=3, observation_keys=("observation/state",))
    assert set(asked) == {("observation/state",)}


def test_server_wish_for_an_earlier_observation_is_followed():
    world = World(latency_s=0.0, next_observation_in_s=0.1)
    world.run(max_steps=20)
    assert [o.control_step for o in world.stream.observations][:5] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"lockstep_timeout_s": 0.0}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        World().source(**options)


# --- any interleaving -----------------------------------------------------------------------------

_answers = st.tuples(
    st.sampled_from(["chunk"] * 5 + ["drop", "fail", "bad"]),
    st.floats(0.0, 0.9),  # latency [s]
)


@given(
    answers=st.lists(_answers, min_size=1, max_size=30),
    events=st.lists(
        st.tuples(
            st.sampled_from(["tick"] * 8 + ["stall", "estop", "rearm", "restart"]),
            st.floats(0.0, 2.0),
        ),
        min_size=10,
        max_size=80,
    ),
    merge=st.sampled_from(["replace", "linear_blend", "temporal_ensemble"]),
    horizon=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_any_interleaving_acts_each_step_at_most_once_and_only_with_its_own_row(
    answers, events, merge, horizon
):
    spec = plain_spec(horizon=horizon, executed_steps=max(1, horizon // 2))
    world = World(spec=spec, merge=merge)
    count = 0

    def answer(observation):
        nonlocal count
        count += 1
        kind = answers[count % len(answers)][0]
        if kind == "drop":
            return None
        if kind == "fail":
            return ServerUnavailableError("no")
        if kind == "bad":
            return np.full((horizon, 1), np.nan, np.float32)
        return observation.control_step + np.arange(horizon, dtype=np.float32)[:, np.newaxis]

    def new_stream():
        return VirtualPolicyStream(
            spec,
            world.clock,
            answer=answer,
            latency_s=lambda o: answers[count % len(answers)][1],
        )

    run, acted_while_stopped = None, 0
    for kind, amount in events:
        if kind == "stall":
            world.clock.advance(amount)
        elif kind == "estop":
            world.control.estop("test")
        elif kind == "rearm":
            world.control.rearm()
        elif kind == "restart" and run is not None and not run.is_finished:
            world.control.cancel(run)
        if (run is None or run.is_finished) and not world.control.state().estopped:
            run = world.control.submit(world.source(stream=new_stream(), max_steps=40))
        stopped, before = world.control.state().estopped, len(world.robot.actions)
        world.control.tick()
        acted_while_stopped += (len(world.robot.actions) - before) if stopped else 0

    acted = [c for c in world.robot.commands if c.action is not None]
    steps = [int(c.action[0]) for c in acted]
    assert acted_while_stopped == 0
    # Conservation: strictly increasing, so no step twice and none out of order.
    assert all(a < b for a, b in zip(steps, steps[1:], strict=False))
    # Its own row, at its own time: the value is the step it was meant for.
    for command, step in zip(acted, steps, strict=True):
        assert -1e-9 <= command.at_s - step * PERIOD_S <= PERIOD_S / 2 + 1e-9
    # Never two commands in one period.
    periods = [int(c.at_s / PERIOD_S + 1e-9) for c in world.robot.commands]
    assert all(a < b for a, b in zip(periods, periods[1:], strict=False))
    state = world.control.state()
    assert state.commanded_steps == len(world.robot.commands)
    assert state.step == state.commanded_steps + state.overrun_ticks
    assert state.commanded_steps == state.policy_steps + state.idle_ticks
