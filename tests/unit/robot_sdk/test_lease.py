"""The client's half of a lease, in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.errors import (
    EpisodeEndedError,
    EpisodeLostError,
    FencedError,
    InternalServerError,
    InvalidArgumentError,
    LeaseExpiredError,
    OverloadedError,
    ServerUnavailableError,
    UnauthenticatedError,
    to_detail,
)
from robot_sdk.lease import (
    EXPIRY_MARGIN_S,
    DropStream,
    LeaseMachine,
    LeasePhase,
    OpenStream,
    SendEnd,
    SendHeartbeat,
    Stop,
    Wait,
)

TTL_S = 10.0
INTERVAL_S = 2.0
CONNECT_S = 8.0
OPEN = episode_pb2.OpenEpisode(open_id="open-0", task="reach")
SUCCESS = episode_pb2.EPISODE_OUTCOME_SUCCESS


def admitted(epoch=1, episode_id="episode-0"):
    return episode_pb2.RunResponse(
        admitted=episode_pb2.Admitted(
            episode_id=episode_id,
            episode_secret="secret",
            server_boot_id="boot",
            epoch=epoch,
            lease_ttl_s=TTL_S,
            heartbeat_interval_s=INTERVAL_S,
        )
    )


def queued(position=1):
    return episode_pb2.RunResponse(
        queued=episode_pb2.Queued(
            position=position, lease_ttl_s=TTL_S, heartbeat_interval_s=INTERVAL_S
        )
    )


def ack(sequence=1):
    return episode_pb2.RunResponse(heartbeat_ack=episode_pb2.HeartbeatAck(sequence=sequence))


def revoked(error):
    return episode_pb2.RunResponse(revoked=episode_pb2.Revoked(error=to_detail(error)))


def ended():
    return episode_pb2.RunResponse(ended=episode_pb2.Ended(outcome=SUCCESS))


def broke():
    return ServerUnavailableError("the connection broke")


def machine_at(now_s=0.0):
    return LeaseMachine(OPEN, now_s, CONNECT_S)


def admitted_machine():
    machine = machine_at()
    assert isinstance(machine.next_step(0.0), OpenStream)
    stream = machine.stream_opened(0.0)
    machine.received(stream, admitted(), 0.0)
    return machine, stream


def resume(machine, now_s):
    step = machine.next_step(now_s)
    assert isinstance(step, OpenStream), step
    assert step.request.HasField("resume")
    return machine.stream_opened(now_s)


def test_it_opens_first_and_waits_for_the_answer_until_the_connect_timeout():
    machine = machine_at()
    step = machine.next_step(0.0)
    assert step.request.open == OPEN
    machine.stream_opened(0.0)
    assert machine.next_step(0.0) == Wait(CONNECT_S)


def test_heartbeats_come_at_the_servers_interval_and_a_stall_causes_no_burst():
    machine, stream = admitted_machine()
    assert machine.next_step(0.0) == Wait(INTERVAL_S)
    assert machine.next_step(2.0) == SendHeartbeat(1)
    assert machine.next_step(2.0) == Wait(4.0)
    machine.received(stream, ack(), 2.1)
    assert machine.next_step(9.0) == SendHeartbeat(2)
    assert machine.next_step(9.0) == Wait(11.0)


def test_c2_a_tool_that_blocks_for_two_seconds_loses_nothing():
    machine, stream = admitted_machine()
    machine.next_step(2.0)
    machine.received(stream, ack(), 2.0)
    assert machine.next_step(6.0) == SendHeartbeat(2)
    assert machine.lost is None


def test_a_queued_robot_heartbeats_too():
    machine = machine_at()
    machine.next_step(0.0)
    stream = machine.stream_opened(0.0)
    machine.received(stream, queued(), 0.5)
    assert machine.phase is LeasePhase.QUEUED
    assert machine.next_step(2.5) == SendHeartbeat(1)


def test_an_absent_server_is_given_up_after_the_connect_timeout_with_its_last_error():
    machine = machine_at()
    now_s = 0.0
    num_tries = 0
    while not machine.is_over:
        step = machine.next_step(now_s)
        if isinstance(step, OpenStream):
            num_tries += 1
            machine.stream_broke(machine.stream_opened(now_s), broke(), now_s)
        elif isinstance(step, Wait):
            assert step.until_s > now_s
            now_s = step.until_s
    assert now_s == CONNECT_S
    assert num_tries == 8  # at 0, 0.1, 0.3, 0.7, 1.5, 3.1, 5.1, 7.1
    assert isinstance(machine.lost, ServerUnavailableError)


def test_a_queued_robot_asks_again_with_the_same_open_id():
    machine = machine_at()
    machine.next_step(0.0)
    stream = machine.stream_opened(0.0)
    machine.received(stream, queued(), 0.0)
    machine.stream_broke(stream, broke(), 1.0)
    assert machine.next_step(1.0) == Wait(1.1)
    assert machine.next_step(1.1).request.open == OPEN


def test_an_admitted_robot_resumes_with_what_it_knows():
    machine, stream = admitted_machine()
    machine.next_turn_index = 3
    machine.stream_broke(stream, broke(), 1.0)
    request = machine.next_step(1.1).request.resume
    assert request.next_turn_index == 3
    assert request.episode == machine.episode
    stream = machine.stream_opened(1.1)
    machine.received(stream, admitted(epoch=2), 1.2)
    assert machine.episode.epoch == 2
    assert machine.next_step(1.2) == Wait(1.2 + INTERVAL_S)


def test_it_keeps_trying_until_the_lease_has_certainly_expired_and_no_longer():
    machine, stream = admitted_machine()
    machine.stream_broke(stream, broke(), 5.0)
    end_s = 5.0 + TTL_S + EXPIRY_MARGIN_S
    now_s = 5.0
    while not machine.is_over:
        step = machine.next_step(now_s)
        if isinstance(step, OpenStream):
            machine.stream_broke(machine.stream_opened(now_s), broke(), now_s)
        elif isinstance(step, Wait):
            assert step.until_s - now_s <= 2.0 + 1e-9
            now_s = step.until_s
    assert now_s == end_s
    assert isinstance(machine.lost, LeaseExpiredError)


def test_a_server_that_falls_silent_is_dropped_after_one_lease_time():
    machine, stream = admitted_machine()
    machine.received(stream, ack(), 3.0)
    assert isinstance(machine.next_step(12.9), SendHeartbeat)
    assert machine.next_step(13.0) == DropStream()
    machine.stream_broke(stream, broke(), 13.0)
    resume(machine, 13.1)


@pytest.mark.parametrize(
    "error",
    [
        EpisodeLostError("restarted"),
        FencedError("taken over"),
        LeaseExpiredError("late"),
        UnauthenticatedError("no"),
        InvalidArgumentError("bad"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("way", ["revoked", "status"])
def test_a_final_word_of_the_server_ends_it_at_once(error, way):
    machine, stream = admitted_machine()
    if way == "revoked":
        machine.received(stream, revoked(error), 1.0)
    else:
        machine.stream_broke(stream, error, 1.0)
    assert type(machine.lost) is type(error)
    assert machine.next_step(1.0) == Stop()


def test_a_status_without_a_cause_does_not_end_an_admitted_episode():
    machine, stream = admitted_machine()
    machine.stream_broke(stream, InternalServerError("RST_STREAM"), 1.0)
    assert machine.lost is None
    resume(machine, 1.1)


def test_an_overloaded_server_refuses_newcomers_at_once():
    machine = machine_at()
    machine.next_step(0.0)
    error = OverloadedError("full", retry_after_s=3.0)
    machine.stream_broke(machine.stream_opened(0.0), error, 0.1)
    assert machine.lost is error


def test_ending_is_told_and_the_servers_word_is_awaited():
    machine, stream = admitted_machine()
    machine.request_end(SUCCESS, "reached", None)
    step = machine.next_step(1.0)
    assert isinstance(step, SendEnd)
    assert step.request.end.reason == "reached"
    assert isinstance(machine.next_step(1.0), Wait)
    machine.received(stream, ended(), 1.1)
    assert machine.phase is LeasePhase.ENDED
    assert machine.lost is None


def test_an_end_whose_answer_was_lost_is_told_again_on_the_next_stream():
    machine, stream = admitted_machine()
    machine.request_end(SUCCESS, "reached", None)
    machine.next_step(1.0)
    machine.stream_broke(stream, broke(), 1.1)
    stream = resume(machine, 1.5)
    machine.received(stream, admitted(epoch=2), 1.6)
    assert isinstance(machine.next_step(1.6), SendEnd)


def test_an_end_that_had_arrived_is_over_when_the_resume_is_refused():
    machine, stream = admitted_machine()
    machine.request_end(SUCCESS, "reached", None)
    machine.next_step(1.0)
    machine.stream_broke(stream, broke(), 1.1)
    stream = resume(machine, 1.5)
    machine.stream_broke(stream, EpisodeEndedError("ended"), 1.6)
    assert machine.phase is LeasePhase.ENDED


def test_ending_in_the_queue_leaves_it():
    machine = machine_at()
    machine.next_step(0.0)
    stream = machine.stream_opened(0.0)
    machine.received(stream, queued(), 0.0)
    machine.request_end(SUCCESS, "", None)
    assert isinstance(machine.next_step(0.1), SendEnd)
    machine.stream_broke(stream, None, 0.2)
    assert machine.next_step(0.2) == Stop()


def test_c6_words_on_an_older_stream_are_not_heard():
    machine, old = admitted_machine()
    machine.stream_broke(old, broke(), 1.0)
    resume(machine, 1.1)
    machine.received(old, revoked(FencedError("taken over")), 1.2)
    machine.stream_broke(old, FencedError("taken over"), 1.2)
    assert machine.lost is None


def test_a_resume_answered_with_another_episode_is_a_loss():
    machine, stream = admitted_machine()
    machine.stream_broke(stream, broke(), 1.0)
    stream = resume(machine, 1.1)
    machine.received(stream, admitted(episode_id="episode-9"), 1.2)
    assert isinstance(machine.lost, EpisodeLostError)


def test_b7_only_differences_of_one_monotonic_clock_count():
    early, _ = admitted_machine()
    late = LeaseMachine(OPEN, 1e6, CONNECT_S)
    late.next_step(1e6)
    stream = late.stream_opened(1e6)
    late.received(stream, admitted(), 1e6)
    assert early.next_step(0.0) == Wait(INTERVAL_S)
    assert late.next_step(1e6) == Wait(1e6 + INTERVAL_S)


responses = st.sampled_from(
    [
        admitted(),
        admitted(epoch=2),
        queued(),
        ack(),
        ended(),
        revoked(FencedError("taken over")),
        episode_pb2.RunResponse(draining=episode_pb2.Draining(deadline_s=5)),
    ]
)
errors = st.sampled_from([None, broke(), EpisodeLostError("lost"), InternalServerError("?")])
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0.0, 15.0)),
        st.tuples(st.just("say"), responses),
        st.tuples(st.just("say on an older stream"), responses),
        st.tuples(st.just("break"), errors),
        st.tuples(st.just("end"), st.none()),
        st.tuples(st.just("fail"), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(happenings)
def test_c3_whatever_happens_an_episode_that_is_over_stays_over(events):
    machine, now_s, stream = machine_at(), 0.0, 0
    was_admitted = was_over = False
    beats_s: list[float] = []
    for kind, value in events:
        if kind == "pass":
            now_s += value
        elif kind == "say":
            machine.received(stream, value, now_s)
        elif kind == "say on an older stream":
            machine.received(stream - 1, value, now_s)
        elif kind == "break":
            machine.stream_broke(stream, value, now_s)
        elif kind == "end":
            machine.request_end(SUCCESS, "", None)
        else:
            machine.fail(FencedError("taken over"))
        was_admitted = was_admitted or machine.admitted is not None
        for _ in range(20):
            step = machine.next_step(now_s)
            assert not was_over or step == Stop()
            if isinstance(step, OpenStream):
                assert step.request.HasField("resume") == was_admitted
                stream = machine.stream_opened(now_s)
                beats_s.clear()
            elif isinstance(step, SendHeartbeat):
                beats_s.append(now_s)
                assert step.sequence == len(beats_s)
                assert len(beats_s) < 2 or beats_s[-1] - beats_s[-2] >= INTERVAL_S
            elif isinstance(step, DropStream):
                machine.stream_broke(stream, broke(), now_s)
            elif isinstance(step, Wait):
                assert step.until_s > now_s
                break
            elif isinstance(step, Stop):
                break
        else:
            raise AssertionError("the machine never comes to rest")
        was_over = was_over or machine.is_over
        assert (machine.phase is LeasePhase.LOST) == (machine.lost is not None)


def test_the_reference_names_episode_secret_epoch_and_boot():
    machine, _ = admitted_machine()
    assert machine.episode == common_pb2.EpisodeRef(
        episode_id="episode-0", episode_secret="secret", epoch=1, server_boot_id="boot"
    )
    assert machine_at().episode is None
