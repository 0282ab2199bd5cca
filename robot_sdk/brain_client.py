"""Asks the brain for one decision after the other, each exactly once.

A turn is named by its index. If the connection breaks the same turn is asked again: a server that
had committed it plays it back, one that had not runs it from the same transcript. Nothing of a
broken attempt is handed out; tool calls come out only with the commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from robot_sdk.api.v1 import brain_pb2, common_pb2
from robot_sdk.backoff import Backoff
from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.episode_calls import EpisodeCalls
from robot_sdk.errors import (
    DeadlineExceededError,
    EpisodeError,
    FencedError,
    RetryableError,
    RobotSdkError,
    ServerUnavailableError,
    TurnInProgressError,
    WorkerUnavailableError,
)
from robot_sdk.lease_client import LeaseClient
from robot_sdk.message_codec import (
    decode_brain_timing,
    decode_finish_reason,
    decode_tool_call,
    decode_usage,
    encode_messages,
    encode_sampling,
    encode_tools,
)
from robot_sdk.messages import Message, Sampling, ToolSpec, TurnResult
from robot_sdk.transport import Transport

_log = logging.getLogger("robot_sdk")

#: Without a deadline of the caller: how long a turn is asked again while the server or its brain is
#: away. The lease usually ends it sooner.
RETRY_FOR_S = 60.0
_RESUME_WAIT_S = 5.0
_WORTH_ASKING_AGAIN = (ServerUnavailableError, TurnInProgressError, WorkerUnavailableError)


class BrainClient:
    """The brain, for one episode.

    Args:
        transport: The way to the server.
        lease: Names the episode in every call.
        calls: Cancels a running turn when the episode is over.
        clock: Stamps the turns. Waiting for the server is in real time.
    """

    def __init__(
        self, transport: Transport, lease: LeaseClient, calls: EpisodeCalls, clock: Clock
    ) -> None:
        self._transport = transport
        self._lease = lease
        self._calls = calls
        self._clock = clock
        self._busy = threading.Lock()
        self._next_index = 0

    @property
    def next_turn_index(self) -> int:
        """Index of the turn that comes next."""
        return self._next_index

    def decide(
        self,
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        sampling: Sampling | None = None,
        slack_s: float | None = None,
        deadline_s: float | None = None,
        on_text: Callable[[str], None] | None = None,
        trace: common_pb2.TraceContext | None = None,
    ) -> TurnResult:
        """Run the next turn; see `Episode.decide`."""
        if not self._busy.acquire(blocking=False):
            raise TurnInProgressError(
                f"turn {self._next_index} is still running",
                hint="one conversation has one turn at a time; wait for it",
            )
        try:
            request = brain_pb2.DecideRequest(
                turn_index=self._next_index,
                new_messages=encode_messages(new_messages),
                tools=encode_tools(tools),
                slack_s=slack_s,
                trace=trace,
            )
            if sampling is not None:
                request.sampling.CopyFrom(encode_sampling(sampling))
            result = self._ask(request, deadline_s, on_text)
            self._next_index += 1
            self._lease.turn_committed(self._next_index)
            return result
        finally:
            self._busy.release()

    def _ask(
        self,
        request: brain_pb2.DecideRequest,
        deadline_s: float | None,
        on_text: Callable[[str], None] | None,
    ) -> TurnResult:
        limit = _Limit(deadline_s)
        backoff = Backoff()
        started_s = self._clock.now_s()
        num_attempts = 0
        is_told = False
        while True:
            num_attempts += 1
            asked_s = self._clock.now_s()
            episode = self._lease.episode_ref()
            request.episode.CopyFrom(episode)
            try:
                result = self._attempt(request, limit, on_text, started_s, num_attempts)
                return replace(result, unavailable_s=asked_s - started_s)
            except FencedError as error:
                self._wait_for_own_resume(episode, error)
            except EpisodeError as error:
                self._calls.check()
                self._lease.fail(error)
                raise
            except RetryableError as error:
                self._calls.check()
                if not isinstance(error, _WORTH_ASKING_AGAIN):
                    raise
                pause_s = backoff.next_s(error.retry_after_s)
                limit.failed(error)
                if not is_told:
                    is_told = True
                    _log.warning("turn %d waits: %s; asking again", request.turn_index, error)
                limit.check(pause_s, request.turn_index, error)
                self._calls.pause(pause_s)

    def _attempt(
        self,
        request: brain_pb2.DecideRequest,
        limit: _Limit,
        on_text: Callable[[str], None] | None,
        started_s: float,
        num_attempts: int,
    ) -> TurnResult:
        self._calls.check()
        remaining_s = limit.remaining_s()
        if remaining_s is not None:
            request.deadline_s = remaining_s
        call = self._transport.decide(request, remaining_s)
        self._calls.add(call)
        answer = _Answer()
        try:
            for response in call:
                delta = answer.add(response)
                if response.HasField("accepted"):
                    limit.progressed()
                if delta and on_text is not None:
                    on_text(delta)
        except RobotSdkError:
            self._calls.check()  # a cancel of our own says why
            raise
        finally:
            call.cancel()
            self._calls.remove(call)
        self._calls.check()
        return answer.result(request.turn_index, started_s, self._clock.now_s(), num_attempts)

    def _wait_for_own_resume(self, used: common_pb2.EpisodeRef, error: FencedError) -> None:
        """Being fenced off by our own resumed stream is no loss; by another's it is."""
        self._calls.check()
        wait_s = 0.0 if self._lease.is_connected else _RESUME_WAIT_S
        if self._lease.episode_ref(newer_than=used.epoch, timeout_s=wait_s).epoch == used.epoch:
            self._lease.fail(error)
            raise error


class _Limit:
    """How long a turn may take: the caller's deadline, or a bound on a server that is away."""

    def __init__(self, deadline_s: float | None) -> None:
        now_s = SYSTEM_CLOCK.now_s()
        self._deadline_s = deadline_s
        self._end_s = None if deadline_s is None else now_s + deadline_s
        self._give_up_s = now_s + RETRY_FOR_S
        self._has_failed = False

    def remaining_s(self) -> float | None:
        """Seconds left for the caller's deadline; None without one."""
        return None if self._end_s is None else max(0.001, self._end_s - SYSTEM_CLOCK.now_s())

    def progressed(self) -> None:
        """The server has taken the turn: it is there. Of a brain that fails this says nothing."""
        if not self._has_failed:
            self._give_up_s = SYSTEM_CLOCK.now_s() + RETRY_FOR_S

    def failed(self, error: RobotSdkError) -> None:
        """The server answered that its brain cannot work: the first such answer starts the time."""
        if isinstance(error, WorkerUnavailableError) and not self._has_failed:
            self._has_failed = True
            self._give_up_s = SYSTEM_CLOCK.now_s() + RETRY_FOR_S

    def check(self, pause_s: float, turn_index: int, error: RobotSdkError) -> None:
        """Raise if no time is left for another try after `pause_s`."""
        then_s = SYSTEM_CLOCK.now_s() + pause_s
        if self._end_s is not None and then_s >= self._end_s:
            raise DeadlineExceededError(
                f"turn {turn_index} was not decided within {self._deadline_s:g} s: {error}"
            ) from error
        if self._end_s is None and then_s >= self._give_up_s:
            raise error


class _Answer:
    """What has come of one attempt so far."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tool_calls: list[brain_pb2.ToolCall] = []
        self._replayed = False
        self._done: brain_pb2.DecideDone | None = None

    def add(self, response: brain_pb2.DecideResponse) -> str:
        """Take in one message; returns the new text, if it has any."""
        kind = response.WhichOneof("message")
        if kind == "text":
            self._text.append(response.text.text)
            return response.text.text
        if kind == "reasoning":
            self._reasoning.append(response.reasoning.text)
        elif kind == "tool_call":
            self._tool_calls.append(response.tool_call)
        elif kind == "accepted":
            self._replayed = response.accepted.replayed
        elif kind == "done":
            self._done = response.done
        return ""

    def result(
        self, turn_index: int, started_s: float, ended_s: float, num_attempts: int
    ) -> TurnResult:
        """The committed turn.

        Raises:
            ServerUnavailableError: The stream ended before the commit.
        """
        done = self._done
        if done is None or done.turn_index != turn_index:
            raise ServerUnavailableError(
                f"the answer to turn {turn_index} broke off before it was complete"
            )
        return TurnResult(
            index=turn_index,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(decode_tool_call(call) for call in self._tool_calls),
            finish_reason=decode_finish_reason(done.finish_reason),
            usage=decode_usage(done.usage),
            timing=decode_brain_timing(done.timing),
            started_s=started_s,
            ended_s=ended_s,
            replayed=self._replayed,
            num_attempts=num_attempts,
            engine=done.engine,
            model=done.model,
        )
