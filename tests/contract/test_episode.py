"""The life of an episode, over memory and over real gRPC."""

from __future__ import annotations

import threading

import pytest

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.errors import (
    CancelledByServerError,
    DeadlineExceededError,
    EpisodeEndedError,
    EpisodeError,
    EpisodeLostError,
    FencedError,
    InvalidArgumentError,
    LeaseExpiredError,
    RobotSdkError,
    UnsupportedError,
)
from robot_sdk.messages import Message
from robot_sdk.robot_state import RobotState
from robot_sdk.testing import FakeDecision
from tests.contract.waiting import eventually

HELLO = [Message.of_text("user", "go")]


def open_episode(client, **changes):
    options = {"task": "reach", "robot_id": "robot-0", "policies": ("reach",)} | changes
    return client.episode(**options)


def test_an_episode_is_admitted_heartbeats_and_ends(rig):
    client = rig.connect()
    with open_episode(client) as episode:
        record = rig.fake.episodes.all[0]
        assert episode.id == record.id
        episode.update_state(RobotState(control_step=7, tool="look"))
        eventually(lambda: any(beat.state.control_step == 7 for beat in record.heartbeats))
        episode.end("success", "reached")
    assert record.outcome == episode_pb2.EPISODE_OUTCOME_SUCCESS
    assert record.end_reason == "reached"
    assert rig.fake.episodes.active == []
    assert episode.lost is None


def test_leaving_by_an_exception_aborts_the_episode_with_its_reason(rig):
    client = rig.connect()
    with pytest.raises(ZeroDivisionError):
        with open_episode(client):
            raise ZeroDivisionError("arm fell off")
    record = rig.fake.episodes.all[0]
    assert record.outcome == episode_pb2.EPISODE_OUTCOME_ABORTED
    assert record.end_reason == "ZeroDivisionError: arm fell off"


def test_leaving_without_an_outcome_claims_no_success(rig):
    client = rig.connect()
    with open_episode(client):
        pass
    assert rig.fake.episodes.all[0].outcome == episode_pb2.EPISODE_OUTCOME_FAILURE


def test_heartbeats_measure_the_clock(rig):
    client = rig.connect()
    offset = client.clock_offset
    assert abs(offset.offset_s) <= offset.bound_s + 1e-6  # one machine, one clock


def test_the_second_robot_queues_with_its_place_and_follows_the_first(rig):
    rig.fake.episodes.cap = 1
    client = rig.connect()
    updates = []
    admitted = threading.Event()

    def second():
        with open_episode(client, robot_id="robot-1", on_queued=updates.append):
            admitted.set()

    with open_episode(client):
        thread = threading.Thread(target=second)
        thread.start()
        eventually(lambda: updates)
        assert (updates[0].position, updates[0].num_waiting) == (1, 1)
        assert updates[0].expected_wait_s is None
        assert not admitted.is_set()
    assert admitted.wait(5.0)
    thread.join(5.0)


def test_c1_an_exception_in_on_queued_leaves_the_queue(rig):
    rig.fake.episodes.cap = 0
    client = rig.connect()

    def refuse(update):
        raise RuntimeError("no patience")

    with pytest.raises(RuntimeError, match="no patience"):
        with open_episode(client, on_queued=refuse):
            pytest.fail("must not be admitted")
    eventually(lambda: rig.fake.episodes.waiting == [])


def test_an_admission_that_takes_too_long_says_the_place_and_leaves_the_queue(rig):
    rig.fake.episodes.cap = 0
    client = rig.connect()
    with pytest.raises(DeadlineExceededError, match="number 1 of 1"):
        with open_episode(client, admission_timeout_s=0.2):
            pytest.fail("must not be admitted")
    eventually(lambda: rig.fake.episodes.waiting == [])


def test_a_queued_robot_keeps_its_place_over_a_broken_stream(rig):
    rig.fake.episodes.cap = 0
    client = rig.connect()
    admitted = threading.Event()

    def wait_for_admission():
        with open_episode(client):
            admitted.set()

    thread = threading.Thread(target=wait_for_admission)
    thread.start()
    eventually(lambda: rig.fake.episodes.waiting)
    rig.fake.break_streams()
    eventually(lambda: sum(r.HasField("open") for r in rig.fake.run_requests) == 2)
    assert len(rig.fake.episodes.all) == 1
    rig.fake.episodes.cap = 1
    rig.fake.episodes.admit()
    assert admitted.wait(5.0)
    thread.join(5.0)


def test_a_broken_stream_is_resumed_with_a_newer_epoch(rig):
    client = rig.connect()
    with open_episode(client) as episode:
        record = rig.fake.episodes.all[0]
        rig.fake.break_streams()
        eventually(lambda: record.epoch == 2)
        num_before = len(record.heartbeats)
        eventually(lambda: len(record.heartbeats) > num_before)
        assert episode.decide(HELLO).text == "done"
        assert episode.lost is None


def test_a_restarted_server_is_told_once_as_episode_lost(rig):
    client = rig.connect()
    with open_episode(client) as episode:
        stream = episode.open_policy("reach", "reach", ["observation/state"])
        rig.fake.restart()
        eventually(lambda: episode.lost)
        assert isinstance(episode.lost, EpisodeLostError)
        with pytest.raises(EpisodeLostError):
            episode.decide(HELLO)
        with pytest.raises(EpisodeLostError):
            stream.poll()
    assert rig.fake.episodes.all == []


@pytest.mark.parametrize("error", [LeaseExpiredError("too late"), FencedError("taken over")])
def test_c2_a_lost_lease_is_told_once_and_stops_a_running_turn(rig, error):
    client = rig.connect()
    rig.fake.brain = lambda request: FakeDecision("too late", delay_s=30.0)
    raised = []
    with open_episode(client) as episode:

        def think():
            try:
                episode.decide(HELLO)
            except RobotSdkError as caught:
                raised.append(caught)

        thread = threading.Thread(target=think)
        thread.start()
        eventually(lambda: rig.fake.decide_requests)
        rig.fake.revoke(rig.fake.episodes.all[0], error)
        thread.join(5.0)
        assert [type(item) for item in raised] == [type(error)]
        assert type(episode.lost) is type(error)


def test_c2_heartbeats_go_on_during_a_turn_far_longer_than_their_interval(rig):
    client = rig.connect()
    rig.fake.brain = lambda request: FakeDecision("thought", delay_s=0.6)
    with open_episode(client) as episode:
        record = rig.fake.episodes.all[0]
        num_before = len(record.heartbeats)
        assert episode.decide(HELLO).text == "thought"
        assert len(record.heartbeats) - num_before >= 5  # 12 intervals of 50 ms


def test_c3_nothing_is_sent_for_an_episode_that_has_ended(rig):
    client = rig.connect()
    with open_episode(client) as episode:
        stream = episode.open_policy("reach", "reach", ["observation/state"])
        episode.end("success")
        num_requests = len(rig.fake.run_requests)
        with pytest.raises(EpisodeEndedError):
            episode.decide(HELLO)
        with pytest.raises(EpisodeEndedError):
            stream.poll()
        episode.update_state(RobotState(control_step=9))
        episode.end("failure")
        threading.Event().wait(0.2)  # four heartbeat intervals
        assert len(rig.fake.run_requests) == num_requests
    assert rig.fake.episodes.active == []
    assert rig.fake.decide_requests == []


def test_c3_a_late_heartbeat_with_the_old_id_is_refused_and_resurrects_nothing(rig):
    client = rig.connect()
    with open_episode(client):
        pass
    record = rig.fake.episodes.all[0]
    stream = client._transport.open_lease()
    stream.send(
        episode_pb2.RunRequest(
            resume=episode_pb2.ResumeEpisode(
                episode=common_pb2.EpisodeRef(
                    episode_id=record.id,
                    episode_secret=record.secret,
                    epoch=record.epoch,
                    server_boot_id=rig.fake.episodes.boot_id,
                )
            )
        )
    )
    stream.send(episode_pb2.RunRequest(heartbeat=episode_pb2.Heartbeat(sequence=1)))
    with pytest.raises(EpisodeEndedError):
        list(stream.receive())
    assert rig.fake.episodes.active == []


def test_closing_the_client_ends_its_episodes(rig):
    client = rig.connect()
    with open_episode(client):
        client.close()
        eventually(lambda: rig.fake.episodes.active == [])
    assert rig.fake.episodes.all[0].end_reason == "the client was closed"


def test_leaving_does_not_hang_when_the_server_is_away(rig):
    client = rig.connect()
    with open_episode(client) as episode:
        rig.fake.go_down()
        episode.end("success", timeout_s=0.3)


def test_an_outage_longer_than_the_lease_ends_the_episode(rig):
    client = rig.connect()
    with open_episode(client) as episode:
        rig.fake.go_down()
        # Lease 2 s, margin 1 s.
        eventually(lambda: episode.lost, timeout_s=6.0)
        assert isinstance(episode.lost, LeaseExpiredError)
        with pytest.raises(EpisodeError):
            episode.decide(HELLO)


def test_a_turn_cannot_run_while_another_does(rig):
    client = rig.connect()
    rig.fake.brain = lambda request: FakeDecision("slow", delay_s=0.3)
    with open_episode(client) as episode:
        thread = threading.Thread(target=lambda: episode.decide(HELLO))
        thread.start()
        eventually(lambda: rig.fake.decide_requests)
        with pytest.raises(RobotSdkError, match="still running"):
            episode.decide(HELLO)
        thread.join(5.0)


def test_a_server_that_aborts_a_turn_is_heard_at_once(rig):
    client = rig.connect()

    def abort(request):
        raise CancelledByServerError("engine abort")

    rig.fake.brain = abort
    with open_episode(client) as episode:
        with pytest.raises(CancelledByServerError, match="engine abort"):
            episode.decide(HELLO)
        rig.fake.brain = lambda request: FakeDecision("again")
        assert episode.decide(HELLO).index == 0


def test_an_unknown_policy_is_refused_with_the_known_ones(rig):
    client = rig.connect()
    with pytest.raises(UnsupportedError, match="did you mean 'reach'"):
        open_episode(client, policies=("reech",))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"robot_id": ""}, "robot_id"),
        ({"robot_id": "two\nlines"}, "robot_id"),
        ({"robot_id": "r" * 20_000}, "robot_id"),
        ({"task": " "}, "task"),
        ({"task": "half a \ud83d pair"}, "task"),
        ({"run_id": "tab\there"}, "run_id"),
        ({"labels": {"k" * 65: "v"}}, "labels"),
        ({"labels": {str(i): "v" for i in range(33)}}, "labels"),
        ({"control_hz": 0.0}, "control_hz"),
        ({"control_hz": float("nan")}, "control_hz"),
    ],
)
def test_a13_names_that_cannot_be_used_are_refused_by_name(rig, changes, field):
    client = rig.connect()
    with pytest.raises(InvalidArgumentError, match=field):
        open_episode(client, **changes)


@pytest.mark.parametrize("text", ["拿起碗", "🦾 go", "line one\nline two\t\r", "x" * 20_000])
def test_a13_any_text_travels_whole_in_the_body(rig, text):
    client = rig.connect()
    with open_episode(client, task=text, robot_id="机器人 🤖") as episode:
        record = rig.fake.episodes.all[0]
        assert record.request.task == text
        assert record.request.robot_id == "机器人 🤖"
        rig.fake.brain = lambda request: FakeDecision(request.new_messages[0].parts[0].text)
        assert episode.decide([Message.of_text("user", text)]).text == text
        stream = episode.open_policy("reach", text, ["observation/state"])
        assert rig.fake.chunk_sessions[0]._open.instruction == text
        stream.close()
