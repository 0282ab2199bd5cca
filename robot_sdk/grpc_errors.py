"""From gRPC's exceptions to ours, with what a person should look at."""

from __future__ import annotations

import grpc

from robot_sdk.errors import (
    InternalServerError,
    OverloadedError,
    RobotSdkError,
    ServerUnavailableError,
    TooLargeError,
    UnauthenticatedError,
    from_rpc_error,
)

# gRPC says these only in words; the status code alone would send the reader the wrong way.
_CERTIFICATE_WORDS = ("certificate_verify_failed", "hostname verification", "peer name")
_CERTIFICATE_HINTS = {
    "expired": "the server's certificate has expired, or this machine's date is wrong",
    "hostname": "the certificate is for another name; set TlsConfig.server_name",
    "peer name": "the certificate is for another name; set TlsConfig.server_name",
}
_TLS_WORDS = ("ssl_error", "tls", "handshake")
_BROKEN_WORDS = ("stream removed", "rst_stream", "goaway", "socket closed", "connection reset")


def translate(error: grpc.RpcError, target: str) -> RobotSdkError:
    """The SDK's exception for a failed call to `target`."""
    plain = from_rpc_error(error)
    text = plain.message.lower()
    if isinstance(plain, ServerUnavailableError):
        return _unavailable(plain, text, target)
    if type(plain) is InternalServerError and any(word in text for word in _BROKEN_WORDS):
        return ServerUnavailableError(f"the connection to {target} broke: {plain.message}")
    if type(plain) is OverloadedError and "larger than max" in text:
        return TooLargeError(plain.message, hint="send smaller pictures, or JPEG instead of raw")
    return plain


def _unavailable(plain: ServerUnavailableError, text: str, target: str) -> RobotSdkError:
    if any(word in text for word in _CERTIFICATE_WORDS):
        hint = next(
            (hint for word, hint in _CERTIFICATE_HINTS.items() if word in text),
            "the certificate is expired, for another name, or not signed by TlsConfig.ca_file",
        )
        return UnauthenticatedError(
            f"the certificate of {target} was not accepted: {plain.message}", hint=hint
        )
    if any(word in text for word in _TLS_WORDS):
        return ServerUnavailableError(
            f"no encrypted connection to {target}: {plain.message}",
            hint="one side uses TLS and the other does not, or the certificates do not match",
        )
    if "failed to connect" not in text and any(word in text for word in _BROKEN_WORDS):
        return ServerUnavailableError(f"the connection to {target} broke: {plain.message}")
    if "socket closed" in text:
        return ServerUnavailableError(
            f"{target} closed the connection: {plain.message}",
            hint="it is stopping, or it wants TLS (tls=TlsConfig(...)) or a client certificate",
        )
    return ServerUnavailableError(
        f"{target} cannot be reached: {plain.message}",
        hint="is the server running (`python -m server`), and is the address right?",
    )
