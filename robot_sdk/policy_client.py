"""The chunk stream: observations out, chunks in, over a connection that may break.

A reader thread receives and, after a break, reopens the stream. Sending costs the caller one
serialisation and no wait; polling an empty stream costs one look at a deque.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence

from robot_sdk.api.v1 import common_pb2, policy_pb2
from robot_sdk.backoff import Backoff
from robot_sdk.chunk_ledger import ChunkLedger, Pending
from robot_sdk.chunks import ChunkArrival, ChunkFailure, PolicyObservation
from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.episode_calls import EpisodeCalls
from robot_sdk.errors import (
    BadModelOutputError,
    CancelledByServerError,
    ClientClosedError,
    DeadlineExceededError,
    EpisodeError,
    FencedError,
    PersistentError,
    RobotSdkError,
    ServerUnavailableError,
    from_detail,
)
from robot_sdk.first_tick import first_tick_s
from robot_sdk.lease_client import LeaseClient
from robot_sdk.observation_check import ObservationCheck
from robot_sdk.observation_codec import (
    EncodedObservation,
    decode_actions,
    decode_policy_timing,
    encode_observation,
)
from robot_sdk.spec import PolicySpec
from robot_sdk.text import check_text
from robot_sdk.timesync import ClockOffset
from robot_sdk.transport import ChunkCall, Transport
from robot_sdk.wire import optional

_log = logging.getLogger(__name__)

_RESUME_WAIT_S = 5.0
_JOIN_TIMEOUT_S = 1.0


class RemotePolicyStream:
    """A `PolicyStream` over a transport. Made by `Episode.open_policy`.

    Args:
        transport: The way to the server.
        lease: Names the episode.
        calls: Cancels the stream when the episode is over.
        clock: Stamps what is sent and received. Waiting for the server is in real time.
        spec: The policy, as the handshake described it.
        instruction: The task in words.
        observation_keys: What every observation will carry; nothing else is sent.
        control_hz: Rate at which the robot executes rows, per second.
        noise_seed: Base of the noise, None for the policy's default.
        trace: Trace context of the stream.
        allow_privileged: The robot may send ground truth.
        clock_offset: Between the server's clock and this process's; None while it is unknown.
    """

    def __init__(
        self,
        transport: Transport,
        lease: LeaseClient,
        calls: EpisodeCalls,
        clock: Clock,
        spec: PolicySpec,
        instruction: str,
        observation_keys: Sequence[str],
        control_hz: float,
        *,
        noise_seed: int | None = None,
        trace: common_pb2.TraceContext | None = None,
        allow_privileged: bool = False,
        clock_offset: Callable[[], ClockOffset | None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._lease = lease
        self._calls = calls
        self._clock = clock
        self._spec = spec
        self._check = ObservationCheck(spec, observation_keys, allow_privileged=allow_privileged)
        self._open = policy_pb2.ChunksOpen(
            policy=spec.name,
            instruction=check_text(instruction, "instruction"),
            control_hz=control_hz,
            observation_keys=self._check.names,
            noise_seed=noise_seed,
            trace=trace,
        )
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._ledger = ChunkLedger()
        self._results: deque[ChunkArrival | ChunkFailure] = deque()
        self._call: ChunkCall | None = None
        self._is_open = False
        self._was_opened = False
        self._clock_offset = clock_offset
        self._first_observation_s: float | None = None
        self._last_error: RobotSdkError | None = None
        self._held: EncodedObservation | None = None
        self._closed = False
        self._finished = False
        self._fault: RobotSdkError | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"robot-sdk-policy-{spec.name}", daemon=True
        )

    def start(self, timeout_s: float) -> None:
        """Open the stream and wait for the server's consent.

        Raises:
            RobotSdkError: Refused, or not opened within `timeout_s`.
        """
        self._thread.start()
        end_s = SYSTEM_CLOCK.now_s() + timeout_s
        with self._changed:
            while not self._was_opened and not self._finished:
                remaining_s = end_s - SYSTEM_CLOCK.now_s()
                if remaining_s <= 0:
                    break
                SYSTEM_CLOCK.wait(self._changed, remaining_s)
            if self._was_opened:
                return
            error = self._last_error
        self.close()
        self._calls.check()
        raise error or ServerUnavailableError(
            f"policy {self._spec.name!r} did not answer within {timeout_s:g} s"
        )

    @property
    def spec(self) -> PolicySpec:
        """What the policy expects and promises."""
        return self._spec

    @property
    def first_observation_s(self) -> float | None:
        """When to take the first observation so that it arrives when the server would like it.

        On the stream's clock. None: any time.
        """
        return self._first_observation_s

    def send(self, observation: PolicyObservation) -> None:
        """Hand over an observation; see `PolicyStream.send`. While the connection is broken the
        newest one is kept and goes out when it stands again, if its deadline has not passed.
        """
        self._check_usable()
        self._check.check(observation.observation)
        now_s = self._clock.now_s()
        request = encode_observation(observation, self._check.names, now_s)
        sequence = observation.sequence
        with self._changed:
            self._check_usable()
            self._ledger.add(sequence, observation.control_step, observation.deadline_s, now_s)
            try:
                replaced = self._hand_over(request)
            except RobotSdkError:
                self._ledger.settle(sequence)
                raise
            if replaced is not None:
                self._fail(self._ledger.settle(replaced), _superseded())

    def poll(self) -> list[ChunkArrival | ChunkFailure]:
        """What has arrived since the last call, oldest first. Never blocks.

        Raises:
            RobotSdkError: The episode is over, or a fault in this process ended the stream.
        """
        self._check_alive()
        if not self._results and not len(self._ledger):
            return []
        with self._changed:
            self._expire()
            results = list(self._results)
            self._results.clear()
        return results

    def wait(self, timeout_s: float) -> bool:
        """Block until `poll` has something to say, at most `timeout_s` of real time."""
        self._check_alive()
        end_s = SYSTEM_CLOCK.now_s() + timeout_s
        with self._changed:
            while True:
                self._check_alive()
                self._expire()
                if self._results:
                    return True
                remaining_s = end_s - SYSTEM_CLOCK.now_s()
                if remaining_s <= 0 or self._closed:
                    return False
                expiry_s = self._ledger.next_expiry_s()
                if expiry_s is not None:
                    remaining_s = min(remaining_s, max(0.0, expiry_s - self._clock.now_s()))
                SYSTEM_CLOCK.wait(self._changed, remaining_s)

    def close(self) -> None:
        """Give up what is in flight and free the stream. Nothing of it is delivered later."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closed = True
            self._held = None
            self._ledger.settle_all()
            self._results.clear()
            call = self._call
            self._changed.notify_all()
        if call is not None:
            call.half_close()
            call.cancel()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_TIMEOUT_S)

    def __enter__(self) -> RemotePolicyStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_alive(self) -> None:
        self._calls.check()
        if self._fault is not None:
            raise self._fault

    def _check_usable(self) -> None:
        self._check_alive()
        if self._closed:
            raise ClientClosedError("the policy stream is closed", hint="open a new one")

    def _hand_over(self, request: EncodedObservation) -> int | None:
        """Send, or hold while the connection is broken. Returns the sequence it replaces."""
        if self._is_open and self._call is not None:
            return self._call.send(request)
        replaced, self._held = self._held, request
        return None if replaced is None else replaced.sequence

    def _expire(self) -> None:
        for pending in self._ledger.expire(self._clock.now_s()):
            if self._held is not None and self._held.sequence == pending.sequence:
                self._held = None
            self._fail(pending, _late(pending, self._last_error if not self._is_open else None))

    def _fail(self, pending: Pending | None, error: RobotSdkError) -> None:
        if pending is not None:
            self._results.append(ChunkFailure(pending.sequence, pending.control_step, error))

    # The reader thread.

    def _run(self) -> None:
        try:
            self._keep_open()
        except Exception as error:  # noqa: BLE001 - the robot would hold for ever and not know why
            _log.exception("the chunk stream of policy %s failed", self._spec.name)
            self._last_error = self._fault = PersistentError(
                f"the chunk stream of policy {self._spec.name!r} failed in this process: "
                f"{type(error).__name__}: {error}",
                hint="the log has the traceback",
            )
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    def _keep_open(self) -> None:
        backoff = Backoff()
        while not self._closed:
            used_epoch = 0
            try:
                episode = self._lease.episode_ref()
                used_epoch = episode.epoch
                self._converse(episode, backoff)
                error: RobotSdkError = ServerUnavailableError("the server closed the policy stream")
            except RobotSdkError as caught:
                error = caught
            if not self._recover(error, used_epoch, backoff):
                return

    def _converse(self, episode: common_pb2.EpisodeRef, backoff: Backoff) -> None:
        """Open a stream and read it to its end."""
        call = self._transport.open_chunks()
        try:
            self._calls.add(call)
            with self._changed:
                self._call = call
            # `close` may have come before there was a call to cancel.
            self._check_usable()
            self._open.episode.CopyFrom(episode)
            call.send_open(policy_pb2.ChunksRequest(open=self._open))
            for response in call:
                received_s = self._clock.now_s()
                with self._changed:
                    self._check_usable()
                    if response.HasField("opened"):
                        backoff.reset()
                        self._on_opened(call, response.opened, received_s)
                    elif response.HasField("chunk"):
                        self._on_chunk(response.chunk, received_s)
                    elif response.HasField("failed"):
                        self._on_failed(response.failed)
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._is_open = False
                self._call = None
            call.cancel()
            self._calls.remove(call)

    def _on_opened(
        self, call: ChunkCall, opened: policy_pb2.ChunksOpened, received_s: float
    ) -> None:
        self._is_open = True
        self._last_error = None
        wish_s = optional(opened, "next_observation_in_s")
        if wish_s is not None and not self._was_opened:
            sent_s = opened.server_sent_ns * 1e-9 if opened.server_sent_ns else None
            offset = self._clock_offset()
            self._first_observation_s = first_tick_s(wish_s, received_s, sent_s, offset)
        self._was_opened = True
        self._expire()
        held, self._held = self._held, None
        if held is None:
            return
        try:
            call.send(held)
        except RobotSdkError as error:
            self._fail(self._ledger.settle(held.sequence), error)

    def _on_chunk(self, chunk: policy_pb2.ActionChunk, received_s: float) -> None:
        pending = self._ledger.settle(chunk.sequence)
        if pending is None:
            return
        try:
            actions = decode_actions(chunk, self._spec)
        except BadModelOutputError as error:
            self._fail(pending, error)
            return
        self._results.append(
            ChunkArrival(
                sequence=pending.sequence,
                control_step=pending.control_step,
                actions=actions,
                timing=decode_policy_timing(chunk.timing),
                sent_s=pending.sent_s,
                received_s=received_s,
                next_observation_in_s=optional(chunk, "next_observation_in_s"),
            )
        )

    def _on_failed(self, failed: policy_pb2.ChunkFailed) -> None:
        error = from_detail(failed.error)
        if isinstance(error, EpisodeError):
            raise error  # settles everything that was in flight
        self._fail(self._ledger.settle(failed.sequence), error)

    def _recover(self, error: RobotSdkError, used_epoch: int, backoff: Backoff) -> bool:
        """Settle what was in flight and wait for the next try; False if there is none."""
        # A fence is most often our own lease stream being resumed, which a running policy holds
        # through. If it is another's, the episode is lost and poll says so.
        told = error
        if isinstance(error, FencedError):
            told = ServerUnavailableError("the lease of the episode is being resumed")
        with self._changed:
            self._last_error = told
            held = self._held
            if held is not None and isinstance(told, PersistentError):
                held = self._held = None
            keep = None if held is None else held.sequence
            for pending in self._ledger.settle_all(keep):
                self._fail(pending, told)
            closed, was_opened = self._closed, self._was_opened
            self._changed.notify_all()
        if closed or self._calls.over is not None:
            return False
        try:
            if isinstance(error, FencedError):
                self._wait_for_own_resume(used_epoch, error)
                return True
            if isinstance(error, EpisodeError):
                self._lease.fail(error)
                return False
            if isinstance(error, PersistentError) and not was_opened:
                return False
            return self._pause(backoff.next_s(error.retry_after_s))
        except RobotSdkError:  # the episode is over; send and poll say so
            return False

    def _wait_for_own_resume(self, used_epoch: int, error: FencedError) -> None:
        """Being fenced off by our own resumed lease stream is no loss; by another's it is."""
        wait_s = 0.0 if self._lease.is_connected else _RESUME_WAIT_S
        if self._lease.episode_ref(newer_than=used_epoch, timeout_s=wait_s).epoch == used_epoch:
            self._lease.fail(error)
            raise error

    def _pause(self, duration_s: float) -> bool:
        """Sleep in real time, with an eye on deadlines; False if the stream was closed."""
        end_s = SYSTEM_CLOCK.now_s() + duration_s
        with self._changed:
            while not self._closed and self._calls.over is None:
                remaining_s = end_s - SYSTEM_CLOCK.now_s()
                if remaining_s <= 0:
                    return True
                SYSTEM_CLOCK.wait(self._changed, remaining_s)
        return False


def _superseded() -> RobotSdkError:
    return CancelledByServerError("a newer observation took its place before it was sent")


def _late(pending: Pending, cause: RobotSdkError | None) -> RobotSdkError:
    assert pending.expires_s is not None  # only those expire
    detail = "" if cause is None else f": {cause}"
    return DeadlineExceededError(
        f"no chunk for observation {pending.sequence} within "
        f"{pending.expires_s - pending.sent_s:g} s{detail}"
    )
