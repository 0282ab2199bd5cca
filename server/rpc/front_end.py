"""The gRPC server object: options, credentials, services."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from robot_sdk.api.v1 import (
    brain_pb2_grpc,
    control_pb2_grpc,
    episode_pb2_grpc,
    fleet_pb2_grpc,
)
from server.config import Config, ConfigError, ServerSection, TlsSection
from server.rpc.auth import Authenticator, AuthInterceptor
from server.rpc.brain_service import BrainServicer
from server.rpc.control_service import ControlServicer
from server.rpc.episode_service import EpisodeServicer
from server.rpc.fleet_service import FleetServicer
from server.rpc.health import SERVICE_NAMES, HealthUpdater
from server.rpc.malformed import MalformedInterceptor
from server.rpc.policy_service import PolicyServicer


class PortInUseError(Exception):
    """The address cannot be listened on. The message is one line and names it."""


def options(section: ServerSection) -> list[tuple[str, int]]:
    """Channel arguments of the server."""
    return [
        ("grpc.max_receive_message_length", section.max_message_bytes),
        ("grpc.max_send_message_length", section.max_message_bytes),
        ("grpc.max_concurrent_streams", section.max_concurrent_streams),
        # Without this two servers could share a port, and robots would reach either.
        ("grpc.so_reuseport", 0),
        # gRPC's own default tolerates one ping in 300 s and then closes the connection
        # ("too_many_pings"), which would end a long brain turn.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _ms(section)),
        ("grpc.http2.min_ping_interval_without_data_ms", _ms(section)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
        # The server's own pings find connections whose robot lost power.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    ]


def credentials(section: TlsSection) -> grpc.ServerCredentials | None:
    """Server credentials, None for plain text.

    Raises:
        ConfigError: A file cannot be read, or the certificate and the key do not belong together.
    """
    if not section.certificate_file:
        return None
    certificate = _read("tls.certificate_file", section.certificate_file)
    key = _read("tls.key_file", section.key_file)
    try:
        # gRPC would say only that it cannot listen. No password: nobody is there to type it.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            section.certificate_file, section.key_file, password=b""
        )
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"tls.certificate_file {section.certificate_file} and tls.key_file "
            f"{section.key_file} cannot be used: {error}"
        ) from error
    if not section.client_ca_file:
        return grpc.ssl_server_credentials([(key, certificate)])
    return grpc.ssl_server_credentials(
        [(key, certificate)],
        root_certificates=_read("tls.client_ca_file", section.client_ca_file),
        require_client_auth=True,
    )


def build(
    config: Config,
    authenticator: Authenticator,
    *,
    control: ControlServicer,
    episodes: EpisodeServicer,
    brain: BrainServicer,
    policy: PolicyServicer,
    fleet: FleetServicer,
    health: HealthUpdater,
) -> tuple[grpc.aio.Server, int]:
    """The server, bound and not started, and its port.

    Raises:
        PortInUseError: The address cannot be listened on.
        ConfigError: A TLS file cannot be read.
    """
    server = grpc.aio.server(
        options=options(config.server),
        interceptors=(AuthInterceptor(authenticator), MalformedInterceptor()),
    )
    control_pb2_grpc.add_ControlServiceServicer_to_server(control, server)
    episode_pb2_grpc.add_EpisodeServiceServicer_to_server(episodes, server)
    brain_pb2_grpc.add_BrainServiceServicer_to_server(brain, server)
    policy.register(server)
    fleet_pb2_grpc.add_FleetServiceServicer_to_server(fleet, server)
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, server)
    reflection.enable_server_reflection(
        (*SERVICE_NAMES, "grpc.health.v1.Health", reflection.SERVICE_NAME), server
    )
    return server, _bind(server, config)


def _bind(server: grpc.aio.Server, config: Config) -> int:
    host, port = config.server.host, config.server.port
    address = f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
    secure = credentials(config.tls)
    try:
        bound = (
            server.add_insecure_port(address)
            if secure is None
            else server.add_secure_port(address, secure)
        )
    except RuntimeError:
        bound = 0
    if bound == 0:
        raise PortInUseError(
            f"cannot listen on {address}: the port is in use or the address is not this machine's"
        )
    return bound


def _ms(section: ServerSection) -> int:
    return round(section.min_keepalive_interval_s * 1000)


def _read(key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: cannot read {path}: {error.strerror}") from error
