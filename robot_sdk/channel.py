"""How a client connects: address, encryption, token, limits, keepalive, reconnection.

Numbers that both ends rely on:

* Messages up to 64 MiB in both directions, sized for several uncompressed cameras.
* The client pings after 60 s of silence, only while a call is open, and gives a peer 20 s to
  answer. A server must permit a ping every 10 s. gRPC's own defaults would end a quiet call with
  "too many pings"; with these a call may be silent for as long as it likes.
* A lost server is tried again at most 1 s after the last failed try. Together with the 2 s cap of
  the SDK's own retries a robot is back within 5 s of the server.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import grpc

from robot_sdk.errors import InvalidArgumentError

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
KEEPALIVE_INTERVAL_S = 60.0
KEEPALIVE_TIMEOUT_S = 20.0
_RECONNECT_INITIAL_S = 0.1
_RECONNECT_MAX_S = 1.0
#: Bound of one attempt to connect, TLS handshake included. gRPC's own is 20 s, which a lost SYN
#: would cost after every outage.
_CONNECT_ATTEMPT_S = 2.0
_TRUE_WORDS = ("1", "true", "yes", "on")
_LOCAL_HOSTS = ("localhost", "127.", "[::1]")

_log = logging.getLogger("robot_sdk")


@dataclass(frozen=True)
class TlsConfig:
    """Encryption of the connection.

    Attributes:
        ca_file: PEM file with the authorities to trust; None uses those that gRPC ships.
        certificate_file, private_key_file: PEM files, where the server wants to know its clients.
        server_name: Name that the server's certificate must carry, if it is not the host's.
    """

    ca_file: str | Path | None = None
    certificate_file: str | Path | None = None
    private_key_file: str | Path | None = None
    server_name: str | None = None


@dataclass(frozen=True)
class ChannelConfig:
    """What a channel is made of; the token is not part of it and so is never printed with it."""

    target: str
    tls: TlsConfig | None = None
    max_message_bytes: int = MAX_MESSAGE_BYTES


def check_target(target: str) -> str:
    """Return `target` as it is if it has the form host:port.

    Raises:
        InvalidArgumentError: Not of that form.
    """
    host, _, port = target.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or not target.isprintable():
        raise InvalidArgumentError(
            "the server's address is not host:port",
            field="target",
            value=ascii(target),
            allowed=['for example "10.0.0.5:7400"'],
        )
    return target


def auth_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Call metadata that carries the token.

    Raises:
        InvalidArgumentError: The token cannot travel in a header. Its value is not shown.
    """
    if token is None:
        return ()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgumentError(
            "the token is empty or holds spaces, line breaks or non-ASCII characters",
            field="token",
            allowed=["printable ASCII without spaces"],
            hint="strip the line break if it was read from a file",
        )
    return (("authorization", f"Bearer {token}"),)


def open_channel(config: ChannelConfig, *, sends_token: bool = False) -> grpc.Channel:
    """A private channel: it shares no connection with other channels of the process.

    Raises:
        InvalidArgumentError: The address or a TLS file is wrong.
    """
    target = check_target(config.target)
    _warn_of_fork_support()
    options: list[tuple[str, str | int]] = [
        ("grpc.max_send_message_length", config.max_message_bytes),
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.keepalive_time_ms", int(KEEPALIVE_INTERVAL_S * 1000)),
        ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT_S * 1000)),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", int(_RECONNECT_INITIAL_S * 1000)),
        ("grpc.max_reconnect_backoff_ms", int(_RECONNECT_MAX_S * 1000)),
        ("grpc.min_reconnect_backoff_ms", int(_CONNECT_ATTEMPT_S * 1000)),
        ("grpc.use_local_subchannel_pool", 1),
        # A proxy from the environment is meant for downloads; a lease stream would die in it.
        ("grpc.enable_http_proxy", 0),
        # Repeats are the SDK's business: it knows which calls may be repeated.
        ("grpc.enable_retries", 0),
    ]
    if config.tls is None:
        if sends_token and not target.startswith(_LOCAL_HOSTS):
            _log.warning("the token travels unencrypted to %s; pass tls=TlsConfig(...)", target)
        return grpc.insecure_channel(target, options=options)
    if config.tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", config.tls.server_name))
    return grpc.secure_channel(target, _credentials(config.tls), options=options)


def _warn_of_fork_support() -> None:
    if os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "0").lower() in _TRUE_WORDS:
        _log.warning(
            "GRPC_ENABLE_FORK_SUPPORT is set: with it gRPC stops a process that forks while a "
            "stream is open. Unset it; programs and processes may be started without it"
        )


def _credentials(tls: TlsConfig) -> grpc.ChannelCredentials:
    if (tls.certificate_file is None) != (tls.private_key_file is None):
        raise InvalidArgumentError(
            "a client certificate needs certificate_file and private_key_file",
            field="tls",
            hint="set both or none",
        )
    return grpc.ssl_channel_credentials(
        root_certificates=_read_pem(tls.ca_file, "ca_file"),
        private_key=_read_pem(tls.private_key_file, "private_key_file"),
        certificate_chain=_read_pem(tls.certificate_file, "certificate_file"),
    )


def _read_pem(path: str | Path | None, field: str) -> bytes | None:
    if path is None:
        return None
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(
            f"{field} cannot be read: {error.strerror}", field=f"tls.{field}", value=path
        ) from None
    if b"-----BEGIN" not in data:
        raise InvalidArgumentError(f"{field} is not a PEM file", field=f"tls.{field}", value=path)
    return data
