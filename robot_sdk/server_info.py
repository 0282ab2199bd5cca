"""What a server said about itself in the handshake, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.api.v1 import control_pb2
from robot_sdk.spec import PolicySpec
from robot_sdk.spec_codec import decode_spec
from robot_sdk.wire import optional


@dataclass(frozen=True)
class BrainInfo:
    """The brain engine. `max_context_tokens` is None where no limit is known."""

    engine: str
    model: str
    max_context_tokens: int | None
    accepts_images: bool
    reports_cached_tokens: bool


@dataclass(frozen=True)
class ServerInfo:
    """A server process.

    Attributes:
        boot_id: New at every start of the process.
        roles: What it serves: "brain", "policy".
        features: Optional behaviours.
        brain: None without the role.
        lease_ttl_s, heartbeat_interval_s: Terms of a lease, seconds.
    """

    server: str
    protocol: str
    boot_id: str
    roles: tuple[str, ...]
    features: tuple[str, ...]
    policies: tuple[PolicySpec, ...]
    brain: BrainInfo | None
    max_message_bytes: int
    min_keepalive_interval_s: float
    lease_ttl_s: float
    heartbeat_interval_s: float
    draining: bool


def decode_server_info(wire: control_pb2.HandshakeResponse) -> ServerInfo:
    """The plain value."""
    return ServerInfo(
        server=wire.server,
        protocol=wire.protocol,
        boot_id=wire.server_boot_id,
        roles=tuple(wire.roles),
        features=tuple(wire.features),
        policies=tuple(decode_spec(item) for item in wire.policies),
        brain=_decode_brain(wire.brain) if wire.HasField("brain") else None,
        max_message_bytes=wire.limits.max_message_bytes,
        min_keepalive_interval_s=wire.limits.min_keepalive_interval_s,
        lease_ttl_s=wire.limits.lease_ttl_s,
        heartbeat_interval_s=wire.limits.heartbeat_interval_s,
        draining=wire.draining,
    )


def _decode_brain(wire: control_pb2.BrainInfo) -> BrainInfo:
    return BrainInfo(
        engine=wire.engine,
        model=wire.model,
        max_context_tokens=optional(wire, "max_context_tokens"),
        accepts_images=wire.accepts_images,
        reports_cached_tokens=wire.reports_cached_tokens,
    )
