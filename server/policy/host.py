"""A policy in its worker process: bytes of observations in, bytes of chunks out."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import SupportsFloat, Union

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.clock import Clock
from robot_sdk.errors import (
    BadModelOutputError,
    InternalServerError,
    InvalidArgumentError,
    RobotSdkError,
    WorkerUnavailableError,
    to_detail,
)
from robot_sdk.report_limiter import ReportLimiter
from robot_sdk.spec import PolicySpec
from robot_sdk.tensors import encode_tensor
from server.policy.checks import check_actions, check_spec, decode_observation
from server.policy.interface import Policy, PolicyInput, PolicyOutput
from server.policy.out_of_memory import is_out_of_memory

_log = logging.getLogger(__name__)

#: What a policy may say to a robot by itself. Others, that an episode has ended for one, are the
#: server's to say: a robot acts on them.
_OF_A_POLICY = (InvalidArgumentError, BadModelOutputError)
_Failure = Union[
    InvalidArgumentError, BadModelOutputError, InternalServerError, WorkerUnavailableError
]


@dataclass(frozen=True)
class RawObservation:
    """Attributes:
    request: A serialised ChunksRequest that holds the observation.
    """

    request: bytes
    instruction: str
    noise_seed: int | None


@dataclass(frozen=True)
class RawAnswer:
    """One observation's answer.

    Attributes:
        body: A serialised Tensor, or a serialised ErrorDetail if `failed`.
        preprocess_s: Time to decode and check the input, seconds.
    """

    failed: bool
    body: bytes
    preprocess_s: float
    vision_s: float | None = None
    prefill_s: float | None = None
    denoise_s: float | None = None


@dataclass(frozen=True)
class BatchResult:
    """Answers in the order of the observations.

    Attributes:
        infer_s: Time in the policy, without the added delay; None if it was not called.
        modelled_delay_s: Added delay; None is none.
    """

    answers: tuple[RawAnswer, ...]
    infer_s: float | None
    modelled_delay_s: float | None


class PolicyHost:
    """Runs batches. A failure of one observation does not touch the others of its batch.

    Args:
        policy: The model.
        name: Configured name; replaces the one in the policy's own spec.
        added_latency_s: Delay added to every inference.

    Raises:
        InvalidArgumentError: The policy's spec contradicts itself.
    """

    def __init__(self, policy: Policy, name: str, added_latency_s: float, clock: Clock) -> None:
        self.spec: PolicySpec = replace(policy.spec, name=name)
        check_spec(self.spec)
        self._policy = policy
        self._added_latency_s = added_latency_s
        self._clock = clock
        self._refusals = ReportLimiter()

    def run(self, batch: Sequence[RawObservation]) -> BatchResult:
        prepared: list[PolicyInput | RobotSdkError] = []
        preprocess_s: list[float] = []
        for item in batch:
            started_s = self._clock.now_s()
            prepared.append(self._prepare(item))
            preprocess_s.append(self._clock.now_s() - started_s)
        inputs = [item for item in prepared if isinstance(item, PolicyInput)]
        if not inputs:
            answers = [_failure(item, s) for item, s in zip(prepared, preprocess_s, strict=True)]
            return BatchResult(tuple(answers), None, None)

        started_s = self._clock.now_s()
        outputs = iter(self._infer(inputs))
        infer_s = self._clock.now_s() - started_s
        if self._added_latency_s > 0:
            self._clock.sleep_until(started_s + infer_s + self._added_latency_s)
        answers = [
            self._answer(next(outputs), s)
            if isinstance(item, PolicyInput)
            else self._refuse(item, s)
            for item, s in zip(prepared, preprocess_s, strict=True)
        ]
        return BatchResult(tuple(answers), infer_s, self._added_latency_s or None)

    def _prepare(self, item: RawObservation) -> PolicyInput | RobotSdkError:
        try:
            request = policy_pb2.ChunksRequest.FromString(item.request)
            return decode_observation(
                request.observation, self.spec, item.instruction, item.noise_seed
            )
        except RobotSdkError as error:
            return error
        except Exception:
            _log.exception("an observation cannot be prepared")
            return InvalidArgumentError("the observation cannot be read", field="observation")

    def _infer(self, inputs: Sequence[PolicyInput]) -> Sequence[PolicyOutput | _Failure]:
        try:
            outputs = list(self._policy.infer(inputs))
        except _OF_A_POLICY as error:
            return [error] * len(inputs)
        except Exception as error:
            if is_out_of_memory(error):
                return [self._out_of_memory(error, len(inputs))] * len(inputs)
            _log.exception("policy %s failed on a batch of %d", self.spec.name, len(inputs))
            return [
                InternalServerError(f"policy {self.spec.name} failed; the server's log says why")
            ] * len(inputs)
        if len(outputs) != len(inputs):
            return [
                BadModelOutputError(
                    f"policy {self.spec.name} answered another number of observations than it got",
                    value=len(outputs),
                    allowed=(len(inputs),),
                )
            ] * len(inputs)
        return outputs

    def _out_of_memory(self, error: Exception, batch_size: int) -> WorkerUnavailableError:
        """The next batch may be smaller, or the memory free again: the robots may ask again."""
        _log.error(
            "policy %s ran out of memory on a batch of %d; if it happens again, lower "
            "policies.%s.max_batch: %s",
            self.spec.name,
            batch_size,
            self.spec.name,
            error,
        )
        return WorkerUnavailableError(
            f"policy {self.spec.name} ran out of memory on a batch of {batch_size} observations",
            field="policy",
            value=self.spec.name,
        )

    def _answer(self, output: PolicyOutput | _Failure, preprocess_s: float) -> RawAnswer:
        if isinstance(output, (*_OF_A_POLICY, InternalServerError, WorkerUnavailableError)):
            return self._refuse(output, preprocess_s)
        try:
            actions = check_actions(output.actions, self.spec)
            vision_s = _seconds(output.vision_s)
            prefill_s = _seconds(output.prefill_s)
            denoise_s = _seconds(output.denoise_s)
        except RobotSdkError as error:
            return self._refuse(error, preprocess_s)
        except Exception:
            _log.exception("policy %s returned something unreadable", self.spec.name)
            return _failure(BadModelOutputError("the policy's answer is unreadable"), preprocess_s)
        return RawAnswer(
            failed=False,
            body=encode_tensor(actions).SerializeToString(),
            preprocess_s=preprocess_s,
            vision_s=vision_s,
            prefill_s=prefill_s,
            denoise_s=denoise_s,
        )

    def _refuse(self, error: RobotSdkError, preprocess_s: float) -> RawAnswer:
        """A robot is told of one bad output; that a policy gives them is for its owner to see."""
        if isinstance(error, BadModelOutputError):
            count = self._refusals.add(self._clock.now_s())
            if count:
                _log.warning(
                    "policy %s: outputs refused since the last such line: %d; the latest: %s",
                    self.spec.name,
                    count,
                    error,
                )
        return _failure(error, preprocess_s)


def _seconds(value: SupportsFloat | None) -> float | None:
    """A duration as a plain number: models tend to measure in scalars of numpy or torch."""
    if value is None:
        return None
    duration_s = float(value)
    return duration_s if math.isfinite(duration_s) else None


def _failure(error: object, preprocess_s: float) -> RawAnswer:
    assert isinstance(error, RobotSdkError)
    return RawAnswer(True, to_detail(error).SerializeToString(), preprocess_s)
