"""Every error that the SDK raises on purpose, and its one mapping to the wire.

Two base classes tell a caller what to do: a `RetryableError` may succeed if the same call is made
again later, a `PersistentError` will not. Each carries what was wrong, the value found, what is
allowed and a hint, so that a message can be acted on without reading the source.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import grpc

from robot_sdk.api.v1 import common_pb2

#: Trailing metadata key under which a server sends a serialised `ErrorDetail`.
ERROR_DETAIL_METADATA_KEY = "robot-sdk-error-bin"

_MAX_VALUE_CHARS = 200
#: UTF-8 bytes of the parts of an error on the wire. It travels in the trailing metadata, of which
#: gRPC takes 8 KiB in all: beyond that the caller would not learn what was wrong.
_MAX_MESSAGE_BYTES = 2000
_MAX_FIELD_BYTES = 300
_MAX_ALLOWED_BYTES = 1000


class RobotSdkError(Exception):
    """Base of all errors of this package.

    Args:
        message: What was wrong, one sentence.
        field: The argument or field that was wrong.
        value: The value found; shortened for printing.
        allowed: What would have been allowed.
        hint: What to do about it.
        retry_after_s: Seconds after which a retry makes sense, None if unknown.
    """

    reason: int = common_pb2.ERROR_REASON_INTERNAL
    status: grpc.StatusCode = grpc.StatusCode.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        value: object = None,
        allowed: Iterable[object] = (),
        hint: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        self.message = message
        self.field = field
        self.value = "" if value is None else _shorten(str(value))
        self.allowed = tuple(str(item) for item in allowed)
        self.hint = hint
        self.retry_after_s = retry_after_s
        super().__init__(self._text())

    def _text(self) -> str:
        text = self.message
        if self.field and self.field not in text:
            text = f"{self.field}: {text}"
        if self.value and not _says(self.message, self.value):
            text += f" (got {self.value})"
        if self.allowed:
            text += f"; allowed: {', '.join(self.allowed)}"
        if self.hint:
            text += f"; {self.hint}"
        return text


def _says(message: str, value: str) -> bool:
    """Whether a message holds a value already, as a whole: 0 is not in "10 s"."""
    return re.search(rf"(?<![\w.+-]){re.escape(value)}(?!\w|\.\w)", message) is not None


class RetryableError(RobotSdkError):
    """The same call may succeed later."""


class PersistentError(RobotSdkError):
    """The same call will fail again; something has to change first."""


class InvalidArgumentError(PersistentError):
    """A value is wrong. Raised before anything was sent or executed; fix the value."""

    reason = common_pb2.ERROR_REASON_INVALID_ARGUMENT
    status = grpc.StatusCode.INVALID_ARGUMENT


class ObservationMismatchError(InvalidArgumentError):
    """An observation lacks a key that the policy needs, or has it in another shape or dtype."""

    reason = common_pb2.ERROR_REASON_OBSERVATION_MISMATCH
    status = grpc.StatusCode.INVALID_ARGUMENT


class TooLargeError(InvalidArgumentError):
    """A message is larger than the limit both ends agreed on. Raised before sending."""

    reason = common_pb2.ERROR_REASON_TOO_LARGE
    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class UnauthenticatedError(PersistentError):
    """Missing or wrong token or episode secret, or a certificate that does not verify."""

    reason = common_pb2.ERROR_REASON_UNAUTHENTICATED
    status = grpc.StatusCode.UNAUTHENTICATED


class PermissionDeniedError(PersistentError):
    """The token is good but its role may not do this."""

    reason = common_pb2.ERROR_REASON_PERMISSION_DENIED
    status = grpc.StatusCode.PERMISSION_DENIED


class UnsupportedError(PersistentError):
    """The server does not offer what was asked: no such policy, role or protocol version."""

    reason = common_pb2.ERROR_REASON_UNSUPPORTED
    status = grpc.StatusCode.UNIMPLEMENTED


class EpisodeError(PersistentError):
    """The episode cannot go on. Start a new one."""

    reason = common_pb2.ERROR_REASON_EPISODE_ENDED
    status = grpc.StatusCode.FAILED_PRECONDITION


class EpisodeUnknownError(EpisodeError):
    """The server has never heard of this episode."""

    reason = common_pb2.ERROR_REASON_EPISODE_UNKNOWN
    status = grpc.StatusCode.NOT_FOUND


class EpisodeLostError(EpisodeError):
    """The server restarted since the episode was admitted, and its state is gone."""

    reason = common_pb2.ERROR_REASON_EPISODE_LOST
    status = grpc.StatusCode.NOT_FOUND


class EpisodeEndedError(EpisodeError):
    """The episode has already ended."""

    reason = common_pb2.ERROR_REASON_EPISODE_ENDED
    status = grpc.StatusCode.FAILED_PRECONDITION


class FencedError(EpisodeError):
    """A newer stream of the same episode took over; this one must stop."""

    reason = common_pb2.ERROR_REASON_FENCED
    status = grpc.StatusCode.FAILED_PRECONDITION


class LeaseExpiredError(EpisodeError):
    """No heartbeat reached the server within the lease time."""

    reason = common_pb2.ERROR_REASON_LEASE_EXPIRED
    status = grpc.StatusCode.FAILED_PRECONDITION


class OutOfOrderError(PersistentError):
    """A turn index or sequence does not follow the last committed one."""

    reason = common_pb2.ERROR_REASON_OUT_OF_ORDER
    status = grpc.StatusCode.FAILED_PRECONDITION


class TurnInProgressError(RetryableError):
    """Another call is working on the same turn."""

    reason = common_pb2.ERROR_REASON_TURN_IN_PROGRESS
    status = grpc.StatusCode.ABORTED


class BadModelOutputError(RetryableError):
    """The model produced something that may not be used; nothing of it was executed."""

    reason = common_pb2.ERROR_REASON_BAD_MODEL_OUTPUT
    status = grpc.StatusCode.INTERNAL


class ContextLimitError(PersistentError):
    """The conversation would pass the model's context limit."""

    reason = common_pb2.ERROR_REASON_CONTEXT_LIMIT
    status = grpc.StatusCode.FAILED_PRECONDITION


class OverloadedError(RetryableError):
    """No room just now."""

    reason = common_pb2.ERROR_REASON_OVERLOADED
    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class DrainingError(RetryableError):
    """The server is about to stop and takes no new episodes."""

    reason = common_pb2.ERROR_REASON_DRAINING
    status = grpc.StatusCode.UNAVAILABLE


class WorkerUnavailableError(RetryableError):
    """The model worker died or is still loading."""

    reason = common_pb2.ERROR_REASON_WORKER_UNAVAILABLE
    status = grpc.StatusCode.UNAVAILABLE


class DeadlineExceededError(RetryableError):
    """The answer did not come within the time that was allowed for it."""

    reason = common_pb2.ERROR_REASON_DEADLINE_EXCEEDED
    status = grpc.StatusCode.DEADLINE_EXCEEDED


class CancelledByServerError(RetryableError):
    """The server gave up the work (engine abort, shutdown, operator)."""

    reason = common_pb2.ERROR_REASON_CANCELLED
    status = grpc.StatusCode.CANCELLED


class ServerUnavailableError(RetryableError):
    """The server cannot be reached."""

    reason = common_pb2.ERROR_REASON_UNSPECIFIED
    status = grpc.StatusCode.UNAVAILABLE


class ClientClosedError(PersistentError):
    """The client was closed. Make a new one with `robot_sdk.connect`."""


class ForkedProcessError(PersistentError):
    """A client was used in a process that was forked after the client had connected.

    The network threads did not come along. Connect anew in the child, started with the "spawn"
    method; the parent's client is unaffected.
    """


class InternalServerError(PersistentError):
    """A fault inside the server. Its log holds the cause."""

    reason = common_pb2.ERROR_REASON_INTERNAL
    status = grpc.StatusCode.INTERNAL


class EstopError(RobotSdkError):
    """The emergency stop is set. Nothing moves until `rearm()`."""


class LoopStoppedError(RobotSdkError):
    """The control loop has not been started, or ended while the work was waiting."""


class StaleObservationError(RobotSdkError):
    """The robot's sensors have stopped delivering: same frame, later time. No inference on it."""


class MissingExtraError(RobotSdkError, ImportError):
    """An optional dependency is not installed. The message holds the install command."""


_BY_REASON: dict[int, type[RobotSdkError]] = {
    cls.reason: cls
    for cls in (
        InvalidArgumentError,
        ObservationMismatchError,
        TooLargeError,
        UnauthenticatedError,
        PermissionDeniedError,
        UnsupportedError,
        EpisodeUnknownError,
        EpisodeLostError,
        EpisodeEndedError,
        FencedError,
        LeaseExpiredError,
        OutOfOrderError,
        TurnInProgressError,
        BadModelOutputError,
        ContextLimitError,
        OverloadedError,
        DrainingError,
        WorkerUnavailableError,
        DeadlineExceededError,
        CancelledByServerError,
        InternalServerError,
    )
}

_BY_STATUS: dict[grpc.StatusCode, type[RobotSdkError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedError,
    grpc.StatusCode.NOT_FOUND: EpisodeUnknownError,
    grpc.StatusCode.FAILED_PRECONDITION: EpisodeEndedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CancelledByServerError,
    grpc.StatusCode.ABORTED: CancelledByServerError,
    grpc.StatusCode.UNAVAILABLE: ServerUnavailableError,
}


def to_detail(error: RobotSdkError) -> common_pb2.ErrorDetail:
    """The wire form of an error: whatever its texts hold, it can be sent. Long ones are cut."""
    detail = common_pb2.ErrorDetail(
        reason=error.reason,  # type: ignore[arg-type]
        message=_sendable(
            error.message + (f"; {error.hint}" if error.hint else ""), _MAX_MESSAGE_BYTES
        ),
        field=_sendable(error.field, _MAX_FIELD_BYTES),
        value=_sendable(error.value, 4 * _MAX_VALUE_CHARS),
        allowed=_sendable_items(error.allowed, _MAX_ALLOWED_BYTES),
    )
    if error.retry_after_s is not None:
        detail.retry_after_s = error.retry_after_s
    return detail


def _sendable(text: str, max_bytes: int) -> str:
    """Without halves of surrogate pairs, which no message can hold, and cut to `max_bytes`."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    return encoded[: max_bytes - 3].decode("utf-8", "ignore") + "..."


def _sendable_items(items: Iterable[str], max_bytes: int) -> list[str]:
    sent: list[str] = []
    for item in items:
        text = _sendable(item, _MAX_VALUE_CHARS)
        max_bytes -= len(text.encode()) + 2
        if max_bytes < 0:
            return [*sent, "..."]
        sent.append(text)
    return sent


def from_detail(detail: common_pb2.ErrorDetail) -> RobotSdkError:
    """The exception for a wire error. An unknown reason becomes InternalServerError."""
    cls = _BY_REASON.get(detail.reason, InternalServerError)
    return cls(
        detail.message,
        field=detail.field,
        value=detail.value or None,
        allowed=detail.allowed,
        retry_after_s=detail.retry_after_s if detail.HasField("retry_after_s") else None,
    )


def from_rpc_error(error: grpc.RpcError) -> RobotSdkError:
    """The exception for a failed gRPC call: its ErrorDetail if it has one, else by status code."""
    for key, value in getattr(error, "trailing_metadata", lambda: ())() or ():
        if key == ERROR_DETAIL_METADATA_KEY:
            try:
                detail = common_pb2.ErrorDetail.FromString(value)
                if detail.reason in _BY_REASON:
                    return from_detail(detail)
            except Exception:  # a garbled detail must not hide the status code  # noqa: BLE001
                break
    code = getattr(error, "code", lambda: grpc.StatusCode.UNKNOWN)()
    details = getattr(error, "details", lambda: "")() or str(code)
    return _BY_STATUS.get(code, InternalServerError)(details)


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Known names that look like `name`, best first; for 'did you mean' hints."""
    return difflib.get_close_matches(name, list(known), n=count, cutoff=0.5)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 3] + "..."
