"""Chunk streams: every observation gets exactly one answer, whatever the connection does."""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.chunks import ChunkArrival, ChunkFailure, PolicyObservation
from robot_sdk.errors import (
    BadModelOutputError,
    CancelledByServerError,
    ClientClosedError,
    DeadlineExceededError,
    InternalServerError,
    InvalidArgumentError,
    ObservationMismatchError,
    ServerUnavailableError,
    TooLargeError,
    UnsupportedError,
)
from robot_sdk.observation import Observation
from tests.contract.conftest import POLICY, step_policy
from tests.contract.waiting import eventually

STATE = "observation/state"
CAMERA = "images/camera"


@pytest.fixture
def episode(rig):
    client = rig.connect()
    with client.episode(task="reach", robot_id="robot-0", policies=("reach",)) as episode:
        yield episode


@pytest.fixture
def stream(episode):
    with episode.open_policy("reach", "reach it", [STATE]) as stream:
        yield stream


def observation(sequence, step=0, deadline_s=None, **values):
    tensors = {STATE: np.array([1.0, 2.0], np.float32)} | values.get("tensors", {})
    return PolicyObservation(
        sequence=sequence,
        control_step=step,
        observation=Observation(tensors=tensors, images=values.get("images", {})),
        buffered_steps=0,
        deadline_s=deadline_s,
    )


def results(stream, count=1):
    found = []
    while len(found) < count:
        assert stream.wait(5.0), f"only {found} came"
        found += stream.poll()
    return found


def test_a_chunk_answers_its_observation(rig, stream):
    stream.send(observation(0, step=12))
    (chunk,) = results(stream)
    assert isinstance(chunk, ChunkArrival)
    assert (chunk.sequence, chunk.control_step) == (0, 12)
    assert chunk.actions.dtype == np.float32
    assert chunk.actions[:, 0].tolist() == [float(12 + i) for i in range(8)]
    assert chunk.actions.flags.writeable
    assert chunk.received_s >= chunk.sent_s
    assert chunk.timing.batch_size == 1
    assert chunk.timing.denoise_s is None
    assert stream.poll() == []


def test_an_empty_wait_ends_in_time(stream):
    assert stream.wait(0.02) is False


def test_a11_an_observation_arrives_bit_equal_whatever_its_layout(rig, episode):
    picture = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    cases = [
        picture[::-1, ::-1],
        picture[..., ::-1],
        picture[3:17, 5:29],
        np.asfortranarray(picture),
    ]
    seen = []

    def policy(item):
        seen.append(item)
        return step_policy(item)

    rig.fake.policy = policy
    with episode.open_policy("reach", "reach it", [STATE, CAMERA]) as stream:
        for sequence, image in enumerate(cases):
            stream.send(observation(sequence, images={CAMERA: image}))
            results(stream)
    for image, item in zip(cases, seen):
        assert np.array_equal(item.images[CAMERA], image)


def test_a1_three_float_cameras_of_11_mb_pass(rig, episode):
    big = np.zeros((3, 480, 640, 3), np.float32)
    spec_keys = [STATE]
    assert big.nbytes > 11_000_000
    rig.fake.policy = step_policy
    with episode.open_policy("reach", "reach it", spec_keys) as stream:
        image = np.zeros((1600, 2400, 3), np.uint8)  # 11.5 MB
        with episode.open_policy("reach", "reach it", [STATE, CAMERA]) as with_camera:
            with_camera.send(observation(0, images={CAMERA: image}))
            assert isinstance(results(with_camera)[0], ChunkArrival)
        stream.send(observation(0))
        assert isinstance(results(stream)[0], ChunkArrival)


def test_a1_an_observation_over_the_limit_is_refused_here_and_the_stream_goes_on(episode):
    with episode.open_policy("reach", "reach it", [STATE, CAMERA]) as stream:
        image = np.zeros((4000, 6000, 3), np.uint8)
        with pytest.raises(TooLargeError, match="the limit is 67108864"):
            stream.send(observation(0, images={CAMERA: image}))
        stream.send(observation(1, images={CAMERA: image[:8, :16]}))
        assert isinstance(results(stream)[0], ChunkArrival)


def test_only_declared_keys_leave_the_robot(rig, stream):
    extra = {"privileged/pose": np.zeros(3), "secret": np.zeros(2)}
    stream.send(observation(0, tensors=extra, images={CAMERA: np.zeros((4, 8, 3), np.uint8)}))
    results(stream)
    sent = rig.fake.chunk_sessions[0].observations[0]
    assert sorted(sent.tensors) == [STATE]
    assert sorted(sent.images) == []


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({STATE: np.zeros(2, np.float64)}, "dtype"),
        ({STATE: np.zeros(3, np.float32)}, "shape"),
        ({STATE: [1.0, 2.0]}, "numpy"),
    ],
)
def test_a_wrong_observation_is_refused_by_name_before_sending(rig, stream, tensors, message):
    with pytest.raises(ObservationMismatchError, match=f"{STATE}.*{message}"):
        stream.send(observation(0, tensors=tensors))
    assert rig.fake.chunk_sessions[0].observations == []


def test_a_missing_key_is_refused_by_name(stream):
    item = PolicyObservation(0, 0, Observation(), 0)
    with pytest.raises(ObservationMismatchError, match=STATE):
        stream.send(item)


def test_keys_that_do_not_fit_the_policy_are_refused_before_opening(rig, episode):
    with pytest.raises(ObservationMismatchError, match=STATE):
        episode.open_policy("reach", "reach it", [])
    with pytest.raises(ObservationMismatchError, match="observation/unknown"):
        episode.open_policy("reach", "reach it", [STATE, "observation/unknown"])
    with pytest.raises(ObservationMismatchError, match="allow_privileged"):
        episode.open_policy("reach", "reach it", [STATE, "privileged/pose"])
    assert rig.fake.chunk_sessions == []


def test_ground_truth_travels_on_opt_in(rig, episode):
    keys = [STATE, "privileged/pose"]
    with episode.open_policy("reach", "reach it", keys, allow_privileged=True) as stream:
        stream.send(observation(0, tensors={"privileged/pose": np.zeros(3)}))
        results(stream)
    assert "privileged/pose" in rig.fake.chunk_sessions[0].observations[0].tensors


def test_a_policy_the_episode_was_not_opened_with_is_refused(rig):
    client = rig.connect()
    with client.episode(task="reach", robot_id="robot-0") as episode:
        with pytest.raises(UnsupportedError, match=r"client\.episode"):
            episode.open_policy("reach", "reach it", [STATE])


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((0, 2), np.float32),
        np.zeros((2,), np.float32),
        np.zeros((8, 3), np.float32),
        np.zeros((4, 2), np.float32),
        np.zeros((8, 2), np.float64),
        np.full((8, 2), np.nan, np.float32),
        np.full((8, 2), np.inf, np.float32),
    ],
    ids=["empty", "flat", "wide", "short", "float64", "nan", "inf"],
)
def test_a14_a_chunk_of_the_wrong_form_is_a_named_failure(rig, stream, rows):
    rig.fake.policy = lambda item: rows
    stream.send(observation(0))
    (failure,) = results(stream)
    assert isinstance(failure, ChunkFailure)
    assert isinstance(failure.error, BadModelOutputError)
    rig.fake.policy = step_policy
    stream.send(observation(1))
    assert isinstance(results(stream)[0], ChunkArrival)


def test_a_failing_policy_is_reported_and_the_stream_goes_on(rig, stream):
    def crash(item):
        raise ValueError("internals")

    rig.fake.policy = crash
    stream.send(observation(0, step=3))
    (failure,) = results(stream)
    assert isinstance(failure.error, InternalServerError)
    assert "internals" not in str(failure.error)
    assert (failure.sequence, failure.control_step) == (0, 3)
    rig.fake.policy = step_policy
    stream.send(observation(1))
    assert isinstance(results(stream)[0], ChunkArrival)


def test_a15_the_newest_observation_wins_and_every_one_is_answered(rig, episode):
    rig.fake.chunk_delay_s = 0.05
    with episode.open_policy("reach", "reach it", [STATE]) as stream:
        for sequence in range(20):
            stream.send(observation(sequence, step=sequence))
        found = results(stream, 20)
    assert sorted(item.sequence for item in found) == list(range(20))
    chunks = [item for item in found if isinstance(item, ChunkArrival)]
    assert chunks[-1].sequence == 19
    failures = [item for item in found if isinstance(item, ChunkFailure)]
    assert failures
    assert all(isinstance(item.error, CancelledByServerError) for item in failures)


def test_a4_one_late_answer_costs_one_failure_and_no_more(rig, episode):
    rig.fake.chunk_delay_s = 0.4
    with episode.open_policy("reach", "reach it", [STATE]) as stream:
        stream.send(observation(0, deadline_s=0.1))
        (failure,) = results(stream)
        assert isinstance(failure.error, DeadlineExceededError)
        rig.fake.chunk_sessions[0]._delay_s = 0.0
        stream.send(observation(1, step=5))
        (chunk,) = results(stream)
        assert chunk.sequence == 1  # the late answer to 0 is not delivered as well


def test_a_broken_stream_fails_what_was_in_flight_and_reopens(rig, episode):
    rig.fake.chunk_delay_s = 30.0
    with episode.open_policy("reach", "reach it", [STATE]) as stream:
        stream.send(observation(0))
        eventually(lambda: rig.fake.chunk_sessions[0].observations)
        rig.fake.chunk_delay_s = 0.0
        rig.fake.break_streams()
        (failure,) = results(stream)
        assert isinstance(failure.error, ServerUnavailableError)
        stream.send(observation(1, step=9))
        (chunk,) = results(stream)
        assert (chunk.sequence, chunk.control_step) == (1, 9)


def test_an_observation_sent_into_an_outage_goes_out_afterwards_unless_it_is_too_late(rig, stream):
    rig.fake.go_down()
    eventually(lambda: not stream._is_open)
    stream.send(observation(0, deadline_s=0.05))
    (late,) = results(stream)
    assert isinstance(late.error, DeadlineExceededError)
    stream.send(observation(1))
    stream.send(observation(2))
    (superseded,) = results(stream)
    assert (superseded.sequence, type(superseded.error)) == (1, CancelledByServerError)
    rig.fake.come_back()
    (chunk,) = results(stream)
    assert chunk.sequence == 2


def test_nothing_comes_after_closing(rig, episode):
    rig.fake.chunk_delay_s = 0.1
    stream = episode.open_policy("reach", "reach it", [STATE])
    stream.send(observation(0))
    stream.close()
    stream.close()
    assert stream.wait(0.2) is False
    assert stream.poll() == []
    with pytest.raises(ClientClosedError):
        stream.send(observation(1))


def test_a_new_stream_hears_nothing_of_an_older_one(rig, episode):
    rig.fake.chunk_delay_s = 0.1
    old = episode.open_policy("reach", "old", [STATE])
    old.send(observation(0, step=100))
    eventually(lambda: rig.fake.chunk_sessions[0].observations)
    old.close()
    with episode.open_policy("reach", "new", [STATE]) as new:
        new.send(observation(0, step=5))
        found = results(new)
        assert [item.control_step for item in found] == [5]
        assert new.wait(0.2) is False


def test_a_sequence_that_does_not_count_up_is_refused(stream):
    stream.send(observation(3))
    with pytest.raises(InvalidArgumentError, match="at least 4"):
        stream.send(observation(3))


def test_the_spec_is_that_of_the_handshake(stream):
    assert stream.spec == POLICY


def test_a_rate_that_is_not_the_policys_own_is_warned_of_once(episode, caplog):
    for _ in range(2):
        with episode.open_policy("reach", "reach it", [STATE], control_hz=10.0):
            pass

    (record,) = [r for r in caplog.records if "executed at" in r.getMessage()]
    assert "policy reach makes its rows for 20 Hz" in record.getMessage()
    assert "executed at 10 Hz: motions take 2 times as long" in record.getMessage()


def test_a_rate_within_one_percent_of_the_policys_own_is_the_same_rate(episode, caplog):
    with episode.open_policy("reach", "reach it", [STATE], control_hz=19.85):
        pass

    assert "executed at" not in caplog.text
