"""The seam between the SDK and the network.

`GrpcTransport` is the real one; `robot_sdk.testing.FakeTransport` stays in memory. Everything
above this seam speaks in protobuf messages and raises only classes of `robot_sdk.errors`.

Sending never blocks: a message is put into an outbox that the transport empties in order.
Iterating blocks until the next message, ends when the server has closed the stream well, and
raises when it broke. `cancel` may be called from any thread, any number of times, and makes a
blocked iteration end soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from robot_sdk.api.v1 import brain_pb2, control_pb2, episode_pb2, policy_pb2
from robot_sdk.observation_codec import EncodedObservation
from robot_sdk.timesync import ClockExchange


class LeaseStream(Protocol):
    """EpisodeService.Run."""

    def send(self, request: episode_pb2.RunRequest) -> None:
        """Queue one message for the server."""

    def receive(self) -> Iterator[episode_pb2.RunResponse]:
        """Messages of the server, for one thread."""

    def cancel(self) -> None:
        """Break the stream off. The lease stays until it expires."""


class DecideCall(Protocol):
    """BrainService.Decide."""

    def __iter__(self) -> Iterator[brain_pb2.DecideResponse]: ...

    def cancel(self) -> None:
        """Give the turn up. A turn that is not committed leaves no trace on the server."""


class ChunkCall(Protocol):
    """PolicyService.Chunks."""

    def send_open(self, request: policy_pb2.ChunksRequest) -> None:
        """Queue the first message, which holds `open`."""

    def send(self, observation: EncodedObservation) -> int | None:
        """Queue an observation in place of one that has not left yet. One thread at a time.

        Returns the sequence of the observation that was replaced, None if there was none.

        Raises:
            TooLargeError: It exceeds the message limit. Nothing was queued.
        """

    def __iter__(self) -> Iterator[policy_pb2.ChunksResponse]: ...

    def half_close(self) -> None:
        """Tell the server that no observation follows."""

    def cancel(self) -> None:
        """Break the stream off and stop the work it started."""


class Transport(Protocol):
    """A way to one server. Thread-safe."""

    def handshake(
        self, request: control_pb2.HandshakeRequest, timeout_s: float
    ) -> control_pb2.HandshakeResponse:
        """ControlService.Handshake, one try.

        Raises:
            ServerUnavailableError: Nobody answers.
            UnauthenticatedError: The server's certificate or our token is not accepted.
        """

    def exchange(self, timeout_s: float) -> ClockExchange:
        """One round of the four-timestamp exchange."""

    def open_lease(self) -> LeaseStream:
        """Start EpisodeService.Run."""

    def decide(self, request: brain_pb2.DecideRequest, timeout_s: float | None) -> DecideCall:
        """Start BrainService.Decide. A timeout of None sets no limit.

        Raises:
            TooLargeError: The request exceeds the message limit. Nothing was sent.
        """

    def open_chunks(self) -> ChunkCall:
        """Start PolicyService.Chunks."""

    def limit_messages(self, max_message_bytes: int) -> None:
        """Take over the server's limit where it is the lower one."""

    def close(self) -> None:
        """Break off everything that runs and free the connection. Never hangs."""


def to_clock_exchange(
    sent_s: float, response: control_pb2.ExchangeResponse, received_s: float
) -> ClockExchange:
    """The four time stamps of one round; `sent_s` and `received_s` are the robot's."""
    return ClockExchange(
        robot_sent_s=sent_s,
        server_received_s=response.server_received_ns * 1e-9,
        server_sent_s=response.server_sent_ns * 1e-9,
        robot_received_s=received_s,
        server_boot_id=response.server_boot_id,
        server_wall_unix_ns=response.server_wall_unix_ns,
    )
