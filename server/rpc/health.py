"""grpc.health.v1, per service, kept in step with what the process can do."""

from __future__ import annotations

from grpc_health.v1 import health, health_pb2

from server.rpc.hub import EpisodeHub
from server.rpc.services import Services

_PACKAGE = "robot_sdk.api.v1"
CONTROL = f"{_PACKAGE}.ControlService"
EPISODE = f"{_PACKAGE}.EpisodeService"
BRAIN = f"{_PACKAGE}.BrainService"
POLICY = f"{_PACKAGE}.PolicyService"
FLEET = f"{_PACKAGE}.FleetService"
SERVICE_NAMES = (CONTROL, EPISODE, BRAIN, POLICY, FLEET)


def states(services: Services, draining: bool) -> dict[str, bool]:
    """Whether each service can be used; "" is the whole process."""
    brain = services.brain is None or services.brain_ready
    policy = not services.policies or services.policies_ready
    return {
        "": brain and policy and not draining,
        CONTROL: True,
        FLEET: True,
        EPISODE: not draining,
        BRAIN: services.brain_ready,
        POLICY: services.policies_ready,
    }


class HealthUpdater:
    """Tells the standard health servicer what has changed."""

    def __init__(self, hub: EpisodeHub, services: Services) -> None:
        self.servicer = health.aio.HealthServicer()
        self._hub = hub
        self._services = services
        self._told: dict[str, bool] = {}

    async def update(self) -> None:
        for name, serving in states(self._services, self._hub.drain is not None).items():
            if self._told.get(name) is not serving:
                self._told[name] = serving
                await self.servicer.set(
                    name,
                    health_pb2.HealthCheckResponse.SERVING
                    if serving
                    else health_pb2.HealthCheckResponse.NOT_SERVING,
                )
