"""The real transport: gRPC, synchronous, with gRPC's own threads inside.

Requests are serialised here and handed to gRPC as bytes. That gives the size for the check against
the limit at no extra cost, and lets the sending thread do the work instead of gRPC's.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from robot_sdk.api.v1 import brain_pb2, control_pb2, episode_pb2, policy_pb2
from robot_sdk.channel import ChannelConfig, auth_metadata, open_channel
from robot_sdk.clock import SYSTEM_CLOCK, to_ns
from robot_sdk.errors import ClientClosedError, RobotSdkError, TooLargeError
from robot_sdk.grpc_errors import translate
from robot_sdk.observation_codec import EncodedObservation
from robot_sdk.outbox import Outbox
from robot_sdk.process import check_process
from robot_sdk.telemetry import trace_metadata
from robot_sdk.timesync import ClockExchange
from robot_sdk.transport import to_clock_exchange

_PACKAGE = "robot_sdk.api.v1"

ResponseT = TypeVar("ResponseT", bound=Message)

# Channels that a forked child inherited. They are kept for ever: freeing one would wait for
# threads that exist only in the parent.
_inherited: list[object] = []
_transports: weakref.WeakSet[GrpcTransport] = weakref.WeakSet()


class GrpcTransport:
    """One private channel to one server.

    Args:
        config: Address, encryption and limits.
        token: Sent with every call, never logged.
    """

    def __init__(self, config: ChannelConfig, token: str | None = None) -> None:
        self._target = config.target
        self._max_message_bytes = config.max_message_bytes
        self._metadata = auth_metadata(token)
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        self._open_calls: weakref.WeakSet[_Stream[Any]] = weakref.WeakSet()
        self._channel = open_channel(config, sends_token=token is not None)
        unary = self._channel.unary_unary
        self._handshake = unary(
            f"/{_PACKAGE}.ControlService/Handshake",
            control_pb2.HandshakeRequest.SerializeToString,
            control_pb2.HandshakeResponse.FromString,
        )
        self._exchange = unary(
            f"/{_PACKAGE}.ControlService/Exchange",
            control_pb2.ExchangeRequest.SerializeToString,
            control_pb2.ExchangeResponse.FromString,
        )
        self._run: Any = self._channel.stream_stream(
            f"/{_PACKAGE}.EpisodeService/Run", None, episode_pb2.RunResponse.FromString
        )
        self._decide: Any = self._channel.unary_stream(
            f"/{_PACKAGE}.BrainService/Decide", None, brain_pb2.DecideResponse.FromString
        )
        self._chunks: Any = self._channel.stream_stream(
            f"/{_PACKAGE}.PolicyService/Chunks", None, policy_pb2.ChunksResponse.FromString
        )
        _transports.add(self)

    def handshake(
        self, request: control_pb2.HandshakeRequest, timeout_s: float
    ) -> control_pb2.HandshakeResponse:
        """ControlService.Handshake, one try."""
        response: control_pb2.HandshakeResponse = self._call(self._handshake, request, timeout_s)
        return response

    def exchange(self, timeout_s: float) -> ClockExchange:
        """One round of the four-timestamp exchange."""
        sent_s = SYSTEM_CLOCK.now_s()
        request = control_pb2.ExchangeRequest(robot_sent_ns=to_ns(sent_s))
        response = self._call(self._exchange, request, timeout_s)
        return to_clock_exchange(sent_s, response, SYSTEM_CLOCK.now_s())

    def open_lease(self) -> GrpcLeaseStream:
        """Start EpisodeService.Run."""
        return GrpcLeaseStream(self, self._run)

    def decide(self, request: brain_pb2.DecideRequest, timeout_s: float | None) -> GrpcDecideCall:
        """Start BrainService.Decide."""
        data = self.serialise(request, "the turn")
        return GrpcDecideCall(self, self._decide, data, timeout_s, trace_metadata(request.trace))

    def open_chunks(self) -> GrpcChunkCall:
        """Start PolicyService.Chunks."""
        return GrpcChunkCall(self, self._chunks)

    def close(self) -> None:
        """Break off everything that runs and free the connection."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            open_calls = list(self._open_calls)
        for call in open_calls:
            call.cancel()
        self._channel.close()

    def serialise(self, message: Message, what: str) -> bytes:
        """The bytes of a message, refused here if the other end would refuse them."""
        return self.check_size(message.SerializeToString(), what)

    def check_size(self, data: bytes, what: str) -> bytes:
        """`data`, a serialised message, if the other end takes that much."""
        if len(data) > self._max_message_bytes:
            raise TooLargeError(
                f"{what} is {len(data)} bytes, the limit is {self._max_message_bytes}",
                field="message",
                value=len(data),
                allowed=[f"at most {self._max_message_bytes} bytes"],
                hint="send fewer or smaller pictures, or JPEG instead of raw; or raise "
                "max_message_bytes on both ends",
            )
        return data

    def limit_messages(self, max_message_bytes: int) -> None:
        """Take over the server's limit where it is the lower one."""
        self._max_message_bytes = min(self._max_message_bytes, max_message_bytes)

    def start(
        self,
        stream: _Stream[Any],
        method: Any,
        request: object,
        timeout_s: float | None,
        metadata: tuple[tuple[str, str], ...],
    ) -> Any:
        """Start a streaming call and remember it for `close`."""
        self._check_usable()
        with self._lock:
            if self._closed:
                raise ClientClosedError("the client is closed")
            self._open_calls.add(stream)
            return method(request, timeout=timeout_s, metadata=(*self._metadata, *metadata))

    def translate(self, error: grpc.RpcError) -> RobotSdkError:
        """The SDK's exception for a failed call."""
        if self._closed:
            return ClientClosedError("the client was closed during the call")
        return translate(error, self._target)

    def _call(self, method: Any, request: Message, timeout_s: float) -> Any:
        self._check_usable()
        try:
            return method(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self.translate(error) from None
        except ValueError:  # what grpc raises for a closed channel
            raise ClientClosedError("the client is closed") from None

    def _check_usable(self) -> None:
        check_process(self._pid)

    def keep_for_ever(self) -> None:
        """Never free the channel in this process: the fork of the one that made it."""
        _inherited.append((self._channel, self._run, self._decide, self._chunks))
        _inherited.extend(self._open_calls)


def _after_fork_in_child() -> None:
    for transport in list(_transports):
        transport.keep_for_ever()


os.register_at_fork(after_in_child=_after_fork_in_child)


class _Stream(Generic[ResponseT]):
    """What the three streaming calls share: iteration, cancelling, errors."""

    def __init__(
        self,
        transport: GrpcTransport,
        method: Any,
        request: object,
        timeout_s: float | None = None,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._transport = transport
        self._pid = os.getpid()
        self._call: Any = None  # stays so if an exception of a signal handler comes in between
        self._call = transport.start(self, method, request, timeout_s, metadata)

    def __iter__(self) -> Iterator[ResponseT]:
        try:
            yield from self._call
        except grpc.RpcError as error:
            raise self._transport.translate(error) from None

    def cancel(self) -> None:
        """Break the call off. Any thread, any number of times."""
        if os.getpid() == self._pid and self._call is not None:
            self._call.cancel()


class _Bidirectional(_Stream[ResponseT]):
    """A stream with an outbox, which ends with the call so that gRPC's sending thread does too."""

    def __init__(self, transport: GrpcTransport, method: Any) -> None:
        self._outbox: Outbox[bytes] = Outbox()
        super().__init__(transport, method, self._outbox)
        if not self._call.add_callback(self._outbox.close):
            self._outbox.close()


class GrpcLeaseStream(_Bidirectional[episode_pb2.RunResponse]):
    """EpisodeService.Run."""

    def send(self, request: episode_pb2.RunRequest) -> None:
        """Queue one message for the server."""
        self._outbox.put(self._transport.serialise(request, "the message"))

    def receive(self) -> Iterator[episode_pb2.RunResponse]:
        """Messages of the server, for one thread."""
        return iter(self)


class GrpcDecideCall(_Stream[brain_pb2.DecideResponse]):
    """BrainService.Decide."""


class GrpcChunkCall(_Bidirectional[policy_pb2.ChunksResponse]):
    """PolicyService.Chunks."""

    def __init__(self, transport: GrpcTransport, method: Any) -> None:
        super().__init__(transport, method)
        self._unsent_sequence: int | None = None

    def send_open(self, request: policy_pb2.ChunksRequest) -> None:
        """Queue the first message."""
        self._outbox.put(self._transport.serialise(request, "the request"))

    def send(self, observation: EncodedObservation) -> int | None:
        """Queue an observation in place of one that has not left yet. For one thread at a time."""
        request = self._transport.check_size(observation.request, "the observation")
        replaced = self._outbox.put_newest(request)
        sequence, self._unsent_sequence = self._unsent_sequence, observation.sequence
        return None if replaced is None else sequence

    def half_close(self) -> None:
        """Tell the server that no observation follows."""
        self._outbox.close()
