"""The way in: `connect` gives a `Client`, which opens episodes."""

from __future__ import annotations

import math
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.channel import MAX_MESSAGE_BYTES, ChannelConfig, TlsConfig
from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.connection import measure_clock, shake_hands
from robot_sdk.episode import Episode, QueueUpdate, find_policy
from robot_sdk.errors import InvalidArgumentError, UnsupportedError
from robot_sdk.grpc_transport import GrpcTransport
from robot_sdk.process import check_process
from robot_sdk.server_info import ServerInfo
from robot_sdk.text import check_labels, check_name, check_text
from robot_sdk.timesync import ClockExchange, ClockFilter, ClockOffset
from robot_sdk.transport import Transport

DEFAULT_CONNECT_TIMEOUT_S = 10.0


def connect(
    target: str,
    *,
    token: str | None = None,
    tls: TlsConfig | None = None,
    clock: Clock = SYSTEM_CLOCK,
    telemetry: object | None = None,
    connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    transport: Transport | None = None,
) -> Client:
    """Connect to a server and agree on terms with it.

    May be called while a module is being imported; the client may be used from any thread, and
    from any asyncio program through a thread. It does not survive a fork: in the child every call
    raises ForkedProcessError, the parent's client goes on.

    Args:
        target: "host:port".
        token: Sent with every call. Never logged.
        tls: Encryption; None for none.
        clock: Stamps turns and chunks. Leases always run on real time.
        telemetry: From `robot_sdk.telemetry.start`; kept for whoever runs the episode.
        connect_timeout_s: How long an absent server is waited for, here and when an episode opens.
        max_message_bytes: Largest message in either direction; the server's limit counts too.
        transport: Another way to a server, for example `robot_sdk.testing.FakeTransport`.

    Raises:
        InvalidArgumentError: The address, the token or a TLS file is wrong.
        ServerUnavailableError: Nobody answers; says what to check.
        UnauthenticatedError: The certificate or the token is not accepted.
        UnsupportedError: The server speaks another protocol.
    """
    if transport is None:
        transport = GrpcTransport(ChannelConfig(target, tls, max_message_bytes), token)
    try:
        return Client(transport, clock, telemetry, connect_timeout_s)
    except BaseException:
        transport.close()
        raise


class Client:
    """A connection to one server. Made by `connect`. Thread-safe; a context manager."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        telemetry: object | None,
        connect_timeout_s: float,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self.telemetry = telemetry
        self._connect_timeout_s = connect_timeout_s
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._clock_filter = ClockFilter()
        self._episodes: weakref.WeakSet[Episode] = weakref.WeakSet()
        self._server_info = self._introduce(connect_timeout_s)

    @property
    def server_info(self) -> ServerInfo:
        """What the server said about itself; renewed when an episode finds it restarted."""
        return self._server_info

    @property
    def clock(self) -> Clock:
        """The clock that stamps turns and chunks."""
        return self._clock

    @property
    def clock_offset(self) -> ClockOffset:
        """Server's monotonic clock minus this process's, and the bound of the error by now.

        Measured at the start and refreshed by every heartbeat.
        """
        with self._lock:
            offset = self._clock_filter.offset(SYSTEM_CLOCK.now_s())
        assert offset is not None  # the handshake has measured it
        return offset

    def episode(
        self,
        *,
        task: str,
        robot_id: str,
        embodiment: str = "",
        run_id: str = "",
        seed: int | None = None,
        labels: Mapping[str, str] | None = None,
        control_hz: float = 20.0,
        policies: Sequence[str] = (),
        uses_brain: bool = True,
        task_family: str = "",
        on_queued: Callable[[QueueUpdate], None] | None = None,
        admission_timeout_s: float | None = None,
        allow_privileged: bool = False,
        trace: common_pb2.TraceContext | None = None,
    ) -> Episode:
        """An episode, to be entered with `with`; entering waits for admission.

        Args:
            task: The task in words. Any text.
            robot_id: Who the robot is; one line in any script.
            embodiment: Kind of robot, for example "libero-panda".
            run_id: Groups episodes of one experiment.
            seed: Seed of the environment, if there is one.
            labels: At most 32; keys up to 64 bytes.
            control_hz: Control rate, per second.
            policies: Names of the policies it may use.
            uses_brain: Whether it talks to the brain.
            task_family: Kind of task, for forecasts of context growth.
            on_queued: Called in the caller's thread with every word about the queue. What it
                raises leaves the queue and comes out of the `with`.
            admission_timeout_s: Longest wait for admission. None: without limit.
            allow_privileged: Ground truth (keys under "privileged/") may be sent to policies.
            trace: Trace context of the episode's span.

        Raises:
            InvalidArgumentError: A name or label cannot be used.
            UnsupportedError: The server does not serve what the episode needs.
        """
        check_process(self._pid)
        info = self._server_info
        if uses_brain and "brain" not in info.roles:
            raise UnsupportedError(
                "the server has no brain",
                field="uses_brain",
                value=uses_brain,
                allowed=[f"roles served: {', '.join(info.roles) or 'none'}"],
                hint="pass uses_brain=False to use policies only",
            )
        for name in policies:
            find_policy(info, name)
        if not math.isfinite(control_hz) or control_hz <= 0:
            raise InvalidArgumentError(
                "control_hz is not a rate", field="control_hz", value=control_hz, allowed=["> 0"]
            )
        if not check_text(task, "task").strip():
            raise InvalidArgumentError("task is empty", field="task", allowed=["a task in words"])
        request = episode_pb2.OpenEpisode(
            open_id=str(uuid.uuid4()),
            robot_id=check_name(robot_id, "robot_id"),
            embodiment=check_name(embodiment, "embodiment", may_be_empty=True),
            run_id=check_name(run_id, "run_id", may_be_empty=True),
            task=task,
            seed=seed,
            labels=check_labels(labels or {}),
            control_hz=control_hz,
            policies=policies,
            uses_brain=uses_brain,
            task_family=check_name(task_family, "task_family", may_be_empty=True),
            trace=trace,
        )
        episode = Episode(
            self._transport,
            request,
            info,
            self._clock,
            on_queued=on_queued,
            admission_timeout_s=admission_timeout_s,
            connect_timeout_s=self._connect_timeout_s,
            allow_privileged=allow_privileged,
            on_exchange=self._add_exchange,
            on_admitted=self._know_server,
            on_over=self._episodes.discard,
            clock_offset=lambda: self.clock_offset,
        )
        self._episodes.add(episode)
        return episode

    def close(self) -> None:
        """End what runs and free the connection. Never hangs; may be called more than once."""
        if os.getpid() != self._pid:
            return
        for episode in list(self._episodes):
            episode.end("aborted", "the client was closed")
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _introduce(self, timeout_s: float) -> ServerInfo:
        info = shake_hands(self._transport, timeout_s)
        if info.max_message_bytes:
            self._transport.limit_messages(info.max_message_bytes)
        for exchange in measure_clock(self._transport, timeout_s):
            self._add_exchange(exchange)
        return info

    def _know_server(self, admitted: episode_pb2.Admitted) -> ServerInfo:
        """A server that restarted may have other policies and has another clock."""
        if admitted.server_boot_id != self._server_info.boot_id:
            self._server_info = self._introduce(self._connect_timeout_s)
        return self._server_info

    def _add_exchange(self, exchange: ClockExchange) -> None:
        with self._lock:
            self._clock_filter.add(exchange)
