"""Bearer tokens: who is calling, for which tenant, and what it may do."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import grpc

from robot_sdk.errors import PermissionDeniedError, RobotSdkError, UnauthenticatedError
from server.config import AuthSection, ConfigError
from server.rpc.errors import abort

Role = Literal["robot", "admin"]

_log = logging.getLogger(__name__)

#: Methods that change things for others.
ADMIN_METHODS = frozenset(
    f"/robot_sdk.api.v1.FleetService/{name}" for name in ("EndEpisode", "Drain", "SetCap")
)
#: Probes of process managers come without tokens.
OPEN_METHODS = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"})


@dataclass(frozen=True)
class Identity:
    """Who is calling."""

    tenant: str
    role: Role


class Authenticator:
    """Knows the tokens, by digest only.

    Without any token everybody is the anonymous tenant with the admin role; `check_exposure` keeps
    such a server off addresses that others can reach.
    """

    def __init__(self, tokens: Sequence[tuple[str, Identity]]) -> None:
        self._identities = [(_digest(token), identity) for token, identity in tokens]

    @property
    def is_open(self) -> bool:
        """No tokens are configured."""
        return not self._identities

    def identify(self, metadata: Iterable[tuple[str, str | bytes]]) -> Identity:
        """The caller, from the call's metadata.

        Raises:
            UnauthenticatedError: No token, or none that is known.
        """
        if self.is_open:
            return Identity(tenant="", role="admin")
        header = next((value for key, value in metadata if key == "authorization"), "")
        scheme, _, token = str(header).partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise UnauthenticatedError(
                "this server needs a token",
                hint="give it to connect(..., token=...) or --token-file; other clients send it as "
                "metadata `authorization: Bearer TOKEN`",
            )
        digest = _digest(token.strip())
        found: Identity | None = None
        # Every entry is compared, so that the time does not tell which one is near.
        for known, identity in self._identities:
            if hmac.compare_digest(known, digest):
                found = identity
        if found is None:
            raise UnauthenticatedError("the token is not known to this server")
        return found

    def allow(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> Identity:
        """The caller, if it may call this method.

        Raises:
            UnauthenticatedError: See `identify`.
            PermissionDeniedError: The method needs the admin role.
        """
        identity = self.identify(metadata)
        if method in ADMIN_METHODS and identity.role != "admin":
            raise PermissionDeniedError(
                f"{method.rsplit('/', 1)[-1]} needs the admin role",
                field="role",
                value=identity.role,
                allowed=("admin",),
            )
        return identity


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls before their handler sees them."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method in OPEN_METHODS:
            return handler
        try:
            self._authenticator.allow(
                handler_call_details.method, handler_call_details.invocation_metadata or ()
            )
        except RobotSdkError as error:
            return _refusing(handler, error)
        return handler


def load_tokens(section: AuthSection) -> list[tuple[str, Identity]]:
    """Tokens from the file and the environment variable that the configuration names.

    Raises:
        ConfigError: A file or variable is missing, or a line is wrong. Tokens are never printed.
    """
    lines: list[tuple[str, str]] = []
    if section.tokens_file:
        try:
            text = Path(section.tokens_file).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"auth.tokens_file: cannot read {section.tokens_file}: {error.strerror}"
            ) from error
        except UnicodeDecodeError:
            # Without the text of the error, which quotes the file.
            raise ConfigError(
                f"auth.tokens_file: {section.tokens_file} is not UTF-8 text"
            ) from None
        lines += [
            (f"{section.tokens_file}:{n}", line) for n, line in enumerate(text.split("\n"), 1)
        ]
    if section.tokens_env:
        value = os.environ.get(section.tokens_env)
        if not value:
            raise ConfigError(f"auth.tokens_env: the variable {section.tokens_env} is not set")
        entries = value.replace(";", "\n").split("\n")
        lines += [(f"{section.tokens_env}[{n}]", line) for n, line in enumerate(entries, 1)]
    tokens = [
        _parse(where, line) for where, line in lines if line.strip() and line.lstrip()[0] != "#"
    ]
    if (section.tokens_file or section.tokens_env) and not tokens:
        raise ConfigError("auth: tokens are configured but none was found")
    return tokens


def check_exposure(host: str, authenticator: Authenticator, allow_anonymous: bool) -> None:
    """Refuse to serve strangers by accident.

    Raises:
        ConfigError: The address can be reached from elsewhere and no tokens are configured.
    """
    if not authenticator.is_open or allow_anonymous or _is_loopback(host):
        return
    raise ConfigError(
        f"server.host is {host}, which others can reach, and no tokens are configured; set "
        "auth.tokens_file or auth.tokens_env, listen on 127.0.0.1, or set "
        "auth.allow_anonymous = true"
    )


def warn_of_plain_tokens(host: str, authenticator: Authenticator, has_tls: bool) -> None:
    """Tokens without encryption are fine on this machine, and readable on the way to it."""
    if authenticator.is_open or has_tls or _is_loopback(host):
        return
    _log.warning(
        "server.host is %s, which others can reach, and tokens travel unencrypted; set "
        "tls.certificate_file and tls.key_file",
        host,
    )


def _parse(where: str, line: str) -> tuple[str, Identity]:
    fields = line.split()
    if len(fields) != 3 or fields[2] not in ("robot", "admin"):
        raise ConfigError(f"{where}: write TOKEN TENANT ROLE, ROLE being robot or admin")
    role: Role = "admin" if fields[2] == "admin" else "robot"
    return fields[0], Identity(tenant=fields[1], role=role)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refusing(
    handler: grpc.RpcMethodHandler[Any, Any], error: RobotSdkError
) -> grpc.RpcMethodHandler[Any, Any]:
    async def refuse(_: Any, context: Any) -> None:
        await abort(context, error)

    if handler.request_streaming and handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler
    elif handler.response_streaming:
        make = grpc.unary_stream_rpc_method_handler
    elif handler.request_streaming:
        make = grpc.stream_unary_rpc_method_handler
    else:
        make = grpc.unary_unary_rpc_method_handler
    return make(
        refuse,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
