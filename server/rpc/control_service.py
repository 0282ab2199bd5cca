"""ControlService: first words, and the comparison of clocks."""

from __future__ import annotations

from typing import Any

import grpc

from robot_sdk.api.v1 import control_pb2, control_pb2_grpc
from robot_sdk.clock import Clock, to_ns, wall_unix_ns
from robot_sdk.errors import UnsupportedError, WorkerUnavailableError
from robot_sdk.version import __version__
from server.config import Config
from server.rpc.errors import translated
from server.rpc.hub import EpisodeHub
from server.rpc.services import Services

_PROTOCOL = "v1"
#: Clients ask again at about this pace while models load, seconds.
_RETRY_WHILE_LOADING_S = 0.5
_FEATURES = ("replay-turn", "resume-episode", "newest-observation-wins")


class ControlServicer(control_pb2_grpc.ControlServiceServicer):
    """Tells what the server is."""

    def __init__(self, hub: EpisodeHub, services: Services, config: Config, clock: Clock) -> None:
        self._hub = hub
        self._services = services
        self._config = config
        self._clock = clock

    @translated
    async def Handshake(
        self,
        request: control_pb2.HandshakeRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> control_pb2.HandshakeResponse:
        if request.protocols and _PROTOCOL not in request.protocols:
            raise UnsupportedError(
                "the client speaks none of the protocol versions of this server",
                field="protocols",
                value=", ".join(request.protocols),
                allowed=(_PROTOCOL,),
            )
        loading = [name for name, it in self._services.policies.items() if it.wire_spec is None]
        if loading:
            # An answer without them would read as "no such policy", which no client would retry.
            raise WorkerUnavailableError(
                "the server is still loading",
                field="policies",
                value=", ".join(loading),
                retry_after_s=_RETRY_WHILE_LOADING_S,
            )
        response = control_pb2.HandshakeResponse(
            server=f"robot-sdk-server/{__version__}",
            protocol=_PROTOCOL,
            server_boot_id=self._hub.boot_id,
            roles=self._services.roles,
            features=_FEATURES,
            policies=[
                driver.wire_spec
                for driver in self._services.policies.values()
                if driver.wire_spec is not None
            ],
            limits=control_pb2.ServerLimits(
                max_message_bytes=self._config.server.max_message_bytes,
                min_keepalive_interval_s=self._config.server.min_keepalive_interval_s,
                lease_ttl_s=self._config.episodes.lease_ttl_s,
                heartbeat_interval_s=self._config.episodes.heartbeat_interval_s,
            ),
            draining=self._hub.drain is not None,
        )
        if self._services.brain is not None:
            info = self._services.brain.info
            response.brain.CopyFrom(
                control_pb2.BrainInfo(
                    engine=info.engine,
                    model=info.model,
                    max_context_tokens=info.max_context_tokens,
                    accepts_images=info.accepts_images,
                    reports_cached_tokens=info.reports_cached_tokens,
                )
            )
        return response

    @translated
    async def Exchange(
        self,
        request: control_pb2.ExchangeRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> control_pb2.ExchangeResponse:
        received_s = self._clock.now_s()
        return control_pb2.ExchangeResponse(
            robot_sent_ns=request.robot_sent_ns,
            server_received_ns=to_ns(received_s),
            server_boot_id=self._hub.boot_id,
            server_wall_unix_ns=wall_unix_ns(),
            server_sent_ns=to_ns(self._clock.now_s()),
        )
