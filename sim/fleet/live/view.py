"""The server's own word on its door and its engine, as an operator sees it."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.grpc_errors import translate
from robot_sdk.operator_access import Fleet
from robot_sdk.wire import optional
from server.core.residency import EngineGauges

_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Look:
    """One look at a server.

    Attributes:
        gauges: Of its engine.
        num_active, num_at_door: Episodes, whoever's they are.
        working_set_blocks: Contexts of the episodes inside; None: not known.
        cap: Of its admission policy; None: it has none.
        policy: Name of that policy.
    """

    gauges: EngineGauges
    num_active: int
    num_at_door: int
    working_set_blocks: int | None
    cap: int | None
    policy: str

    @property
    def working_set_share(self) -> float:
        """Of the pool; 0 where either is not known."""
        if self.working_set_blocks is None or not self.gauges.pool_blocks:
            return 0.0
        return self.working_set_blocks / self.gauges.pool_blocks


def look(fleet: Fleet, address: str) -> Look:
    """Ask for the status.

    Raises:
        RobotSdkError: The server cannot be reached or refuses.
    """
    try:
        response = fleet.stub.Status(
            fleet_pb2.StatusRequest(), timeout=_TIMEOUT_S, metadata=fleet.metadata
        )
    except grpc.RpcError as error:
        raise translate(error, address) from None
    return decode_look(response.status)


def decode_look(status: fleet_pb2.FleetStatus) -> Look:
    """What of a status the books of a run hold."""
    load, admission = status.brain.load, status.admission
    return Look(
        gauges=EngineGauges(
            pool_blocks=optional(load, "pool_blocks"),
            block_tokens=optional(load, "block_tokens"),
            kv_cache_usage=optional(load, "kv_cache_usage"),
            requests_running=optional(load, "requests_running"),
            requests_waiting=optional(load, "requests_waiting"),
            snapshot_interval_tokens=optional(load, "snapshot_interval_tokens"),
        ),
        num_active=admission.active_episodes,
        num_at_door=admission.queued_episodes,
        working_set_blocks=optional(status.brain.prefix, "working_set_blocks"),
        cap=optional(admission, "cap"),
        policy=admission.policy,
    )
