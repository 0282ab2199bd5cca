"""Drives a `LeaseMachine`: one thread that sends, one per stream that reads.

The sending thread heartbeats whatever the user's threads do: a long brain turn or a tool that
computes for seconds delays nothing but itself. Lease times are real time even where the rest of an
episode runs on a virtual clock: the server at the other end is real.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.clock import SYSTEM_CLOCK, Clock, to_ns
from robot_sdk.episode_calls import EpisodeCalls
from robot_sdk.errors import (
    DeadlineExceededError,
    EpisodeEndedError,
    PersistentError,
    RobotSdkError,
    ServerUnavailableError,
)
from robot_sdk.lease import (
    DropStream,
    LeaseMachine,
    OpenStream,
    SendEnd,
    SendHeartbeat,
    Stop,
    Wait,
)
from robot_sdk.robot_state import RobotState
from robot_sdk.state_codec import encode_state
from robot_sdk.timesync import ClockExchange
from robot_sdk.transport import LeaseStream, Transport

#: Bound of waiting for the answer to EndEpisode.
END_TIMEOUT_S = 5.0
_JOIN_TIMEOUT_S = 1.0

_log = logging.getLogger("robot_sdk")


class LeaseClient:
    """Gets, keeps and gives back the lease of one episode.

    Args:
        transport: The way to the server.
        request: What to ask for.
        calls: Stopped, with the reason, when the episode is over.
        connect_timeout_s: How long the server may fail to answer at first.
        on_exchange: Told every heartbeat's four time stamps; must not block.
        clock: Real time; tests may pass their own.
    """

    def __init__(
        self,
        transport: Transport,
        request: episode_pb2.OpenEpisode,
        calls: EpisodeCalls,
        *,
        connect_timeout_s: float,
        on_exchange: Callable[[ClockExchange], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._transport = transport
        self._calls = calls
        self._on_exchange = on_exchange
        self._clock = clock
        self._pid = os.getpid()
        self._started_s = clock.now_s()
        self._machine = LeaseMachine(request, self._started_s, connect_timeout_s)
        self._changed = threading.Condition()
        self._state: episode_pb2.RobotState | None = None
        self._stream: LeaseStream | None = None
        self._stream_id = 0
        self._aborted = False
        self._thread = threading.Thread(target=self._drive, name="robot-sdk-lease", daemon=True)

    def start(self) -> None:
        """Start asking for admission."""
        self._thread.start()

    def wait_admitted(
        self,
        timeout_s: float | None,
        on_queued: Callable[[episode_pb2.Queued], None] | None = None,
    ) -> episode_pb2.Admitted:
        """Block until the episode is admitted; `on_queued` is called in the caller's thread.

        Raises:
            DeadlineExceededError: Not admitted within `timeout_s`.
            EpisodeEndedError: Another thread has ended the episode meanwhile.
            RobotSdkError: Refused, or the server cannot be reached.
        """
        deadline_s = None if timeout_s is None else self._started_s + timeout_s
        told: episode_pb2.Queued | None = None
        while True:
            with self._changed:
                machine = self._machine
                while machine.queued is told and machine.admitted is None and not machine.is_over:
                    now_s = self._clock.now_s()
                    if deadline_s is not None and now_s >= deadline_s:
                        raise _not_admitted(timeout_s, told)
                    self._clock.wait(
                        self._changed, None if deadline_s is None else deadline_s - now_s
                    )
                if machine.lost is not None:
                    raise machine.lost
                if machine.admitted is not None:
                    return machine.admitted
                if machine.is_over:
                    raise EpisodeEndedError("the episode was ended while it waited at the door")
                told = machine.queued
            if on_queued is not None and told is not None:
                on_queued(told)

    def episode_ref(self, newer_than: int = 0, timeout_s: float = 0.0) -> common_pb2.EpisodeRef:
        """What a call must say about the episode at present.

        Waits up to `timeout_s` for an epoch above `newer_than`, which a resume in progress brings.

        Raises:
            RobotSdkError: The episode is over.
        """
        deadline_s = self._clock.now_s() + timeout_s
        with self._changed:
            while True:
                self._calls.check()
                episode = self._machine.episode
                remaining_s = deadline_s - self._clock.now_s()
                if episode is not None and (episode.epoch > newer_than or remaining_s <= 0):
                    return episode
                if remaining_s <= 0:
                    raise ServerUnavailableError("the episode is not admitted")
                self._clock.wait(self._changed, remaining_s)

    @property
    def is_connected(self) -> bool:
        """The lease stream stands. False while it is being resumed."""
        return self._machine.is_connected

    @property
    def queued(self) -> episode_pb2.Queued | None:
        """The last word on the place in the queue."""
        return self._machine.queued

    @property
    def draining(self) -> episode_pb2.Draining | None:
        """The server's notice that it will stop, None so far."""
        return self._machine.draining

    @property
    def pacing(self) -> episode_pb2.Pacing | None:
        """The server's last advice on when to ask, None so far."""
        return self._machine.pacing

    @property
    def pacing_received_s(self) -> float | None:
        """When that advice came, on the lease's clock."""
        return self._machine.pacing_received_s

    @property
    def ended(self) -> episode_pb2.Ended | None:
        """The server's answer to the end, None without one."""
        return self._machine.ended

    def update_state(self, state: RobotState) -> None:
        """The next heartbeat carries this. Never blocks.

        Raises:
            InvalidArgumentError: A value cannot travel; the last state stays.
        """
        self._state = encode_state(state)

    def turn_committed(self, next_turn_index: int) -> None:
        """Told to the server when the stream has to be resumed."""
        self._machine.next_turn_index = next_turn_index

    def fail(self, error: RobotSdkError) -> None:
        """Another call found that the episode is lost."""
        with self._changed:
            self._machine.fail(error)
            self._changed.notify_all()
        self._calls.stop(error)

    def end(
        self,
        outcome: episode_pb2.EpisodeOutcome,
        reason: str,
        timeout_s: float = END_TIMEOUT_S,
    ) -> None:
        """Give the lease back and wait for the server's word, at most `timeout_s`. Never raises
        for an unreachable server: the lease then ends by itself.
        """
        if os.getpid() != self._pid:
            return
        deadline_s = self._clock.now_s() + timeout_s
        with self._changed:
            self._machine.request_end(outcome, reason, self._state)
            self._changed.notify_all()
            while not self._machine.is_over:
                remaining_s = deadline_s - self._clock.now_s()
                if remaining_s <= 0:
                    _log.warning(
                        "the server has not confirmed the end of the episode within %g s; "
                        "its lease ends by itself",
                        timeout_s,
                    )
                    break
                self._clock.wait(self._changed, remaining_s)
        self.abort()

    def abort(self) -> None:
        """Break everything off without a word to the server. Never hangs."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._aborted = True
            self._changed.notify_all()
            stream = self._stream
        if stream is not None:
            stream.cancel()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_TIMEOUT_S)

    # The sending thread.

    def _drive(self) -> None:
        try:
            with self._changed:
                while not self._aborted and self._do_next():
                    pass
        except RobotSdkError as error:  # the client was closed under a running episode
            with self._changed:
                self._machine.fail(error)
        except Exception as error:  # noqa: BLE001 - the lease would expire and nobody know why
            _log.exception("the heartbeat of the episode failed")
            fault = PersistentError(
                "the heartbeat of the episode failed in this process: "
                f"{type(error).__name__}: {error}",
                hint="the log has the traceback",
            )
            with self._changed:
                self._machine.fail(fault)
        with self._changed:
            reason = self._machine.lost
            stream = self._stream
            self._changed.notify_all()
        if reason is not None:
            self._calls.stop(reason)
        if stream is not None and (reason is not None or self._machine.is_over):
            stream.cancel()

    def _do_next(self) -> bool:
        """Take one step; False when there is none left. Holds the lock, and never blocks in it
        except to wait.
        """
        now_s = self._clock.now_s()
        step = self._machine.next_step(now_s)
        if isinstance(step, Stop):
            return False
        if isinstance(step, Wait):
            self._clock.wait(self._changed, max(0.0, step.until_s - now_s))
        elif isinstance(step, OpenStream):
            self._open_stream(step.request, now_s)
        elif isinstance(step, SendHeartbeat):
            self._send(self._heartbeat(step.sequence, now_s))
        elif isinstance(step, SendEnd):
            self._send(step.request)
        elif isinstance(step, DropStream):
            self._drop_stream(now_s)
        return True

    def _open_stream(self, request: episode_pb2.RunRequest, now_s: float) -> None:
        stream = self._transport.open_lease()
        stream.send(request)
        self._stream = stream
        self._stream_id = self._machine.stream_opened(now_s)
        threading.Thread(
            target=self._read,
            args=(stream, self._stream_id),
            name="robot-sdk-lease-reader",
            daemon=True,
        ).start()

    def _send(self, request: episode_pb2.RunRequest) -> None:
        assert self._stream is not None  # the machine sends only on an open stream
        self._stream.send(request)

    def _drop_stream(self, now_s: float) -> None:
        assert self._stream is not None  # as above
        self._stream.cancel()
        self._machine.stream_broke(
            self._stream_id, ServerUnavailableError("the server has fallen silent"), now_s
        )

    def _heartbeat(self, sequence: int, now_s: float) -> episode_pb2.RunRequest:
        return episode_pb2.RunRequest(
            heartbeat=episode_pb2.Heartbeat(
                sequence=sequence, robot_sent_ns=to_ns(now_s), state=self._state
            )
        )

    # The reading threads.

    def _read(self, stream: LeaseStream, stream_id: int) -> None:
        error: RobotSdkError | None = None
        try:
            for response in stream.receive():
                now_s = self._clock.now_s()
                with self._changed:
                    self._machine.received(stream_id, response, now_s)
                    self._changed.notify_all()
                if response.WhichOneof("message") == "heartbeat_ack":
                    self._report_exchange(response.heartbeat_ack, now_s)
        except RobotSdkError as caught:
            error = caught
        with self._changed:
            self._machine.stream_broke(stream_id, error, self._clock.now_s())
            self._changed.notify_all()

    def _report_exchange(self, ack: episode_pb2.HeartbeatAck, now_s: float) -> None:
        admitted = self._machine.admitted
        if admitted is None:
            return
        self._on_exchange(
            ClockExchange(
                robot_sent_s=ack.robot_sent_ns * 1e-9,
                server_received_s=ack.server_received_ns * 1e-9,
                server_sent_s=ack.server_sent_ns * 1e-9,
                robot_received_s=now_s,
                server_boot_id=admitted.server_boot_id,
            )
        )


def _not_admitted(
    timeout_s: float | None, queued: episode_pb2.Queued | None
) -> DeadlineExceededError:
    place = ""
    if queued is not None:
        place = f"; it was number {queued.position} of {queued.num_waiting} in the queue"
        place += f" ({queued.reason})" if queued.reason else ""
    return DeadlineExceededError(
        f"the episode was not admitted within {timeout_s:g} s{place}",
        field="admission_timeout_s",
        hint="wait longer, or raise the server's cap",
    )
