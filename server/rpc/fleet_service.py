"""FleetService: what an operator sees and may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from robot_sdk.api.v1 import fleet_pb2, fleet_pb2_grpc
from robot_sdk.clock import Clock, pause
from robot_sdk.errors import InvalidArgumentError
from server.core.fleet_watch import FleetReport
from server.core.leases import Phase
from server.rpc.brain_status import brain_status
from server.rpc.errors import translated
from server.rpc.hub import EpisodeHub, LiveEpisode
from server.rpc.policy_status import policy_status
from server.rpc.services import Services

_MIN_INTERVAL_S = 0.1
_MAX_DRAIN_S = 7 * 24 * 3600.0


class FleetServicer(fleet_pb2_grpc.FleetServiceServicer):
    """Roles are checked before these methods are reached.

    Args:
        begin_drain: Starts the drain of the whole process (deadline in seconds, reason).
    """

    def __init__(
        self,
        hub: EpisodeHub,
        services: Services,
        clock: Clock,
        started_s: float,
        begin_drain: Callable[[float, str], None],
    ) -> None:
        self._hub = hub
        self._services = services
        self._clock = clock
        self._started_s = started_s
        self._begin_drain = begin_drain

    @translated
    async def Status(
        self, request: fleet_pb2.StatusRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> fleet_pb2.StatusResponse:
        return fleet_pb2.StatusResponse(status=self._status(request.include_episodes))

    @translated
    async def Watch(
        self, request: fleet_pb2.WatchRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        if not request.interval_s >= _MIN_INTERVAL_S:
            raise InvalidArgumentError(
                "the interval is too short",
                field="interval_s",
                value=request.interval_s,
                allowed=(f">= {_MIN_INTERVAL_S}",),
            )
        while True:
            # A watcher that reads slowly holds up its own next status and nothing else.
            await context.write(
                fleet_pb2.WatchResponse(status=self._status(request.include_episodes))
            )
            await pause(request.interval_s)

    @translated
    async def EndEpisode(
        self, request: fleet_pb2.EndEpisodeRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> fleet_pb2.EndEpisodeResponse:
        live = self._hub.end_by_operator(request.episode_id, request.reason)
        return fleet_pb2.EndEpisodeResponse(episode=self._episode(live, 0))

    @translated
    async def Drain(
        self, request: fleet_pb2.DrainRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> fleet_pb2.DrainResponse:
        if not 0 <= request.deadline_s <= _MAX_DRAIN_S:
            raise InvalidArgumentError(
                "the deadline is a number of seconds",
                field="deadline_s",
                value=request.deadline_s,
                allowed=(f"0..{_MAX_DRAIN_S:.0f}",),
            )
        num_queued = len(self._hub.registry.queued())
        self._begin_drain(request.deadline_s, request.reason or "asked by an operator")
        return fleet_pb2.DrainResponse(
            active_episodes=len(self._hub.registry.active()), queued_episodes=num_queued
        )

    @translated
    async def SetCap(
        self, request: fleet_pb2.SetCapRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> fleet_pb2.SetCapResponse:
        self._hub.registry.set_cap(request.cap if request.HasField("cap") else None)
        self._hub.step()
        report = self._hub.registry.look(self._clock.now_s())
        return fleet_pb2.SetCapResponse(admission=self._admission(report))

    def _status(self, include_episodes: bool) -> fleet_pb2.FleetStatus:
        report = self._hub.registry.look(self._clock.now_s())
        status = fleet_pb2.FleetStatus(
            server_boot_id=self._hub.boot_id,
            uptime_s=self._clock.now_s() - self._started_s,
            draining=self._hub.drain is not None,
            admission=self._admission(report),
            policies=[policy_status(driver) for driver in self._services.policies.values()],
        )
        engine = self._services.brain
        if engine is not None:
            status.brain.CopyFrom(brain_status(engine, self._services.brain_totals, report))
        if include_episodes:
            places = {
                p.episode_id: p.position for p in self._hub.registry.places(self._clock.now_s())
            }
            status.episodes.extend(
                self._episode(live, places.get(live.episode_id, 0)) for live in self._hub
            )
        return status

    def _admission(self, report: FleetReport) -> fleet_pb2.AdmissionStatus:
        registry = self._hub.registry
        counters = registry.counters
        return fleet_pb2.AdmissionStatus(
            policy=registry.admission.name,
            cap=report.cap,
            active_episodes=len(registry.active()),
            queued_episodes=len(registry.queued()),
            admitted_total=counters.admitted,
            ended_total=counters.ended,
            expired_total=counters.expired,
            reason=registry.waiting_reason,
            forecast_blocks=report.admission.forecast_blocks,
            capacity_blocks=report.admission.capacity_blocks,
            detail=report.admission.detail,
        )

    def _episode(self, live: LiveEpisode, position: int) -> fleet_pb2.EpisodeStatus:
        lease = live.lease
        now_s = self._clock.now_s()
        admitted = lease.phase is Phase.ADMITTED
        context = self._hub.registry.ledger.context(lease.episode_id)
        return fleet_pb2.EpisodeStatus(
            episode_id=lease.episode_id,
            robot_id=lease.info.robot_id,
            task=lease.info.task,
            tenant=lease.info.tenant,
            phase=(
                fleet_pb2.EPISODE_PHASE_ADMITTED if admitted else fleet_pb2.EPISODE_PHASE_QUEUED
            ),
            queue_position=position,
            age_s=now_s - lease.opened_s,
            lease_remaining_s=max(lease.lease_until_s - now_s, 0.0),
            connected=lease.connected,
            committed_turns=live.turns.num_committed,
            chunks_served=live.chunks_served,
            robot_state=live.robot.state if live.robot else None,
            epoch=lease.epoch,
            task_family=lease.info.task_family,
            context_tokens=context.context_tokens if context and context.num_turns else None,
        )
