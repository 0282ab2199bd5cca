from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest

from robot_sdk.api.v1 import common_pb2, policy_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import (
    BadModelOutputError,
    EpisodeEndedError,
    EstopError,
    InternalServerError,
    InvalidArgumentError,
    ObservationMismatchError,
    OverloadedError,
    RobotSdkError,
    WorkerUnavailableError,
    from_detail,
)
from robot_sdk.tensors import decode_tensor, encode_tensor
from server.policy.host import PolicyHost, RawAnswer, RawObservation
from server.policy.interface import PolicyInput, PolicyOutput
from tests.fakes.policies import OutOfMemoryPolicy, StepPolicy


def raw(control_step: int, key: str = "observation/state") -> RawObservation:
    observation = policy_pb2.Observation(
        sequence=1,
        control_step=control_step,
        tensors={key: encode_tensor(np.zeros(8, np.float32))},
    )
    request = policy_pb2.ChunksRequest(observation=observation)
    return RawObservation(request.SerializeToString(), "go", None)


def first_step(answer: RawAnswer) -> float:
    return float(decode_tensor(common_pb2.Tensor.FromString(answer.body))[0, 0])


def error(answer: RawAnswer) -> Exception:
    return from_detail(common_pb2.ErrorDetail.FromString(answer.body))


def test_answers_keep_the_order_of_the_batch_around_a_bad_observation() -> None:
    host = PolicyHost(StepPolicy(), "mine", 0.0, VirtualClock())

    answers = host.run([raw(10), raw(20, key="wrong"), raw(30)]).answers

    assert [a.failed for a in answers] == [False, True, False]
    assert (first_step(answers[0]), first_step(answers[2])) == (10.0, 30.0)
    assert isinstance(error(answers[1]), ObservationMismatchError)


def test_a_batch_of_nothing_but_bad_observations_does_not_run_the_policy() -> None:
    result = PolicyHost(StepPolicy(), "mine", 1.0, VirtualClock()).run([raw(1, key="wrong")])

    assert result.answers[0].failed
    assert result.infer_s is None
    assert result.modelled_delay_s is None


def test_bytes_that_are_no_message_fail_alone() -> None:
    host = PolicyHost(StepPolicy(), "mine", 0.0, VirtualClock())

    answers = host.run([RawObservation(b"\xff\xff", "", None), raw(5)]).answers

    assert [a.failed for a in answers] == [True, False]


def test_the_added_latency_is_waited_for_and_kept_apart_from_the_work() -> None:
    clock = VirtualClock()

    result = PolicyHost(StepPolicy(), "mine", 0.4, clock).run([raw(1)])

    assert clock.now_s() == 0.4
    assert (result.infer_s, result.modelled_delay_s) == (0.0, 0.4)


def test_the_configured_name_replaces_the_policys_own() -> None:
    assert PolicyHost(StepPolicy(), "mine", 0.0, VirtualClock()).spec.name == "mine"


class Wrong(StepPolicy):
    """Answers too few, or raises."""

    def __init__(self, raises: bool) -> None:
        super().__init__()
        self._raises = raises

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        if self._raises:
            raise RuntimeError("secret")
        return []


def test_a_policy_that_loses_observations_fails_them_all_by_name() -> None:
    answers = PolicyHost(Wrong(raises=False), "mine", 0.0, VirtualClock()).run([raw(1), raw(2)])

    assert all(isinstance(error(a), BadModelOutputError) for a in answers.answers)


def test_a_policy_that_raises_tells_no_internals() -> None:
    (answer,) = PolicyHost(Wrong(raises=True), "mine", 0.0, VirtualClock()).run([raw(1)]).answers

    assert isinstance(error(answer), InternalServerError)
    assert "secret" not in str(error(answer))


class Raising(StepPolicy):
    """Raises `error`, or gives it in place of every output."""

    def __init__(self, error: RobotSdkError, returned: bool = False) -> None:
        super().__init__()
        self._error = error
        self._returned = returned

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        if self._returned:
            return [self._error] * len(batch)  # type: ignore[list-item]
        raise self._error


@pytest.mark.parametrize(
    "raised", [InvalidArgumentError, ObservationMismatchError, BadModelOutputError]
)
def test_what_a_policy_says_of_its_input_and_output_reaches_the_robot(
    raised: type[RobotSdkError],
) -> None:
    policy = Raising(raised("the gripper is hidden"))

    (answer,) = PolicyHost(policy, "mine", 0.0, VirtualClock()).run([raw(1)]).answers

    assert type(error(answer)) is raised
    assert "the gripper is hidden" in str(error(answer))


@pytest.mark.parametrize("raised", [EpisodeEndedError, OverloadedError, EstopError])
@pytest.mark.parametrize("returned", [False, True])
def test_a_policy_cannot_speak_for_the_server(
    raised: type[RobotSdkError], returned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Raising(raised("secret"), returned)

    (answer,) = PolicyHost(policy, "mine", 0.0, VirtualClock()).run([raw(1)]).answers

    assert type(error(answer)) is (BadModelOutputError if returned else InternalServerError)
    assert "secret" not in str(error(answer))
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


class NotFinite(StepPolicy):
    """Every chunk has a NaN in it."""

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        shape = (self.spec.horizon, self.spec.action_dim)
        return [PolicyOutput(np.full(shape, np.nan, np.float32)) for _ in batch]


def test_a14_refused_output_is_logged_with_policy_and_reason_but_not_at_every_chunk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    host = PolicyHost(NotFinite(), "mine", 0.0, clock)

    for _ in range(20):
        assert isinstance(error(host.run([raw(1)]).answers[0]), BadModelOutputError)
        clock.advance(1.0)

    first, second = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert "policy mine: outputs refused since the last such line: 1;" in first
    assert "nan in row 0" in first
    assert "line: 10;" in second


def test_an_observation_that_does_not_fit_is_no_fault_of_the_policy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    PolicyHost(StepPolicy(), "mine", 0.0, VirtualClock()).run([raw(1, key="wrong")])

    assert not caplog.records


class Timed(StepPolicy):
    """Says that looking took `vision_s`."""

    def __init__(self, vision_s: object) -> None:
        super().__init__()
        self._vision_s = vision_s

    def infer(self, batch: Sequence[PolicyInput]) -> Sequence[PolicyOutput]:
        return [
            PolicyOutput(self._chunk(item), vision_s=self._vision_s)  # type: ignore[arg-type]
            for item in batch
        ]


def test_times_measured_in_numpy_scalars_become_plain_numbers() -> None:
    (answer,) = PolicyHost(Timed(np.float32(0.5)), "m", 0.0, VirtualClock()).run([raw(1)]).answers

    assert not answer.failed
    assert type(answer.vision_s) is float
    assert answer.vision_s == 0.5


def test_a_time_that_is_no_number_fails_its_observation_only() -> None:
    (answer,) = PolicyHost(Timed("fast"), "m", 0.0, VirtualClock()).run([raw(1)]).answers
    (unknown,) = PolicyHost(Timed(np.nan), "m", 0.0, VirtualClock()).run([raw(1)]).answers

    assert isinstance(error(answer), BadModelOutputError)
    assert not unknown.failed
    assert unknown.vision_s is None


@pytest.mark.parametrize("kind", ["host", "device"])
def test_out_of_memory_fails_the_whole_batch_with_its_size_and_the_next_one_runs(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = PolicyHost(OutOfMemoryPolicy(kind), "mine", 0.0, VirtualClock())

    answers = host.run([raw(10), raw(666), raw(30)]).answers

    assert [type(error(a)) for a in answers] == [WorkerUnavailableError] * 3
    assert "ran out of memory on a batch of 3" in str(error(answers[0]))
    assert "secret detail" not in str(error(answers[0]))
    assert "policies.mine.max_batch" in caplog.text
    assert [a.failed for a in host.run([raw(10), raw(30)]).answers] == [False, False]
