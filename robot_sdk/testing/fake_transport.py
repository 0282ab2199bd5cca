"""A `Transport` that ends in a `FakeServer` of the same process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from google.protobuf.message import Message

from robot_sdk.api.v1 import brain_pb2, control_pb2, episode_pb2, policy_pb2
from robot_sdk.channel import MAX_MESSAGE_BYTES
from robot_sdk.clock import SYSTEM_CLOCK, to_ns
from robot_sdk.errors import CancelledByServerError, ClientClosedError, TooLargeError
from robot_sdk.observation_codec import EncodedObservation
from robot_sdk.testing.fake_brain import FakeDecideSession
from robot_sdk.testing.fake_server import FakeServer
from robot_sdk.timesync import ClockExchange
from robot_sdk.transport import to_clock_exchange

MessageT = TypeVar("MessageT", bound=Message)


class FakeTransport:
    """Everything that the real transport does, without a network.

    Messages go through their wire form, so that what cannot travel fails here too.

    Args:
        server: The other end; several transports may share one.
    """

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self._max_message_bytes = MAX_MESSAGE_BYTES
        self._closed = False
        self._calls: list[FakeLeaseStream | FakeDecideSession | FakeChunkCall] = []

    def handshake(
        self, request: control_pb2.HandshakeRequest, timeout_s: float
    ) -> control_pb2.HandshakeResponse:
        """ControlService.Handshake."""
        return self.server.handshake(request)

    def exchange(self, timeout_s: float) -> ClockExchange:
        """One round of the four-timestamp exchange."""
        sent_s = SYSTEM_CLOCK.now_s()
        response = self.server.exchange(control_pb2.ExchangeRequest(robot_sent_ns=to_ns(sent_s)))
        return to_clock_exchange(sent_s, response, SYSTEM_CLOCK.now_s())

    def open_lease(self) -> FakeLeaseStream:
        """EpisodeService.Run."""
        self._check_open()
        call = FakeLeaseStream(self)
        self._calls.append(call)
        return call

    def decide(self, request: brain_pb2.DecideRequest, timeout_s: float | None) -> FakeDecideCall:
        """BrainService.Decide."""
        self._check_open()
        session = self.server.decide(self.travel(request))
        self._calls.append(session)
        return FakeDecideCall(session, timeout_s)

    def open_chunks(self) -> FakeChunkCall:
        """PolicyService.Chunks."""
        self._check_open()
        call = FakeChunkCall(self)
        self._calls.append(call)
        return call

    def limit_messages(self, max_message_bytes: int) -> None:
        """Take over the server's limit where it is the lower one."""
        self._max_message_bytes = min(self._max_message_bytes, max_message_bytes)

    def close(self) -> None:
        """Cancel everything that runs."""
        self._closed = True
        for call in self._calls:
            call.cancel()

    def travel(self, message: MessageT) -> MessageT:
        """The message as it comes out at the other end."""
        data = message.SerializeToString()
        if len(data) > self._max_message_bytes:
            raise TooLargeError(
                f"the message is {len(data)} bytes, the limit is {self._max_message_bytes}",
                field="message",
                value=len(data),
                allowed=[f"at most {self._max_message_bytes} bytes"],
            )
        return type(message).FromString(data)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the client is closed")


class FakeLeaseStream:
    """EpisodeService.Run."""

    def __init__(self, transport: FakeTransport) -> None:
        self._transport = transport
        self._session = transport.server.open_run()

    def send(self, request: episode_pb2.RunRequest) -> None:
        """Deliver one message at once."""
        request = self._transport.travel(request)
        self._transport.server.run_requests.append(request)
        self._session.handle(request)

    def receive(self) -> Iterator[episode_pb2.RunResponse]:
        """Messages of the server."""
        return iter(self._session.responses)

    def cancel(self) -> None:
        """Break the stream off."""
        self._session.responses.fail(CancelledByServerError("the call was cancelled"))


class FakeDecideCall:
    """BrainService.Decide."""

    def __init__(self, session: FakeDecideSession, timeout_s: float | None) -> None:
        self._session = session
        self._timeout_s = timeout_s

    def __iter__(self) -> Iterator[brain_pb2.DecideResponse]:
        return self._session.responses.read(self._timeout_s)

    def cancel(self) -> None:
        """Give the turn up."""
        self._session.cancel()


class FakeChunkCall:
    """PolicyService.Chunks."""

    def __init__(self, transport: FakeTransport) -> None:
        self._transport = transport
        self._session = transport.server.open_chunks()

    def send_open(self, request: policy_pb2.ChunksRequest) -> None:
        """Deliver the first message."""
        self._session.handle(self._transport.travel(request))

    def send(self, observation: EncodedObservation) -> int | None:
        """Deliver an observation at once, so that none is ever replaced on this side."""
        request = policy_pb2.ChunksRequest.FromString(observation.request)
        self._session.handle(self._transport.travel(request))
        return None

    def __iter__(self) -> Iterator[policy_pb2.ChunksResponse]:
        return iter(self._session.responses)

    def half_close(self) -> None:
        """Tell the server that no observation follows."""
        self._session.half_close()

    def cancel(self) -> None:
        """Break the stream off."""
        self._session.cancel()
