"""From the configuration to the door: policy, registry and hub."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping

from robot_sdk.clock import Clock
from robot_sdk.telemetry import Telemetry
from server.brain.interface import BrainEngine
from server.config import Config, ConfigError
from server.core.admission import build_policy
from server.core.leases import LeaseTable
from server.core.registry import EpisodeRegistry
from server.core.residency import EngineGauges, PrefixOutcome
from server.rpc.hub import EpisodeHub
from server.rpc.refresh_driver import nothing_to_refresh
from server.sections.admission import AdmissionSection


def build_hub(
    config: Config,
    brain: BrainEngine | None,
    *,
    boot_id: str,
    clock: Clock,
    telemetry: Telemetry,
    on_turn: Callable[[PrefixOutcome, float], None],
) -> EpisodeHub:
    """The hub of one server process; arguments as of EpisodeHub.

    Raises:
        ConfigError: A tenant's weight is no number above 0.
    """
    episodes, admission = config.episodes, config.admission
    registry = EpisodeRegistry(
        LeaseTable(episodes.lease_ttl_s, boot_id, lambda: secrets.token_urlsafe(16)),
        build_policy(admission.policy, admission.policy_settings()),
        max_waiting=episodes.max_waiting,
        max_duration_s=episodes.max_duration_s,
        tenant_weights=tenant_weights(admission),
        max_turn_hold_s=admission.max_turn_hold_s,
    )
    return EpisodeHub(
        registry,
        episodes,
        boot_id,
        clock,
        telemetry,
        on_episode_end=brain.end_episode if brain else lambda _: None,
        max_context_tokens=lambda: brain.info.max_context_tokens if brain else None,
        engine_gauges=lambda: engine_gauges(admission, brain),
        brain_problem=lambda: brain.problem if brain else "",
        refresh=brain.refresh if brain else nothing_to_refresh,
        on_turn=on_turn,
    )


def tenant_weights(section: AdmissionSection) -> Mapping[str, float]:
    """The checked table of weights.

    Raises:
        ConfigError: A weight is no number above 0.
    """
    for tenant, weight in section.tenant_weights.items():
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not (is_number and math.isfinite(weight) and weight > 0):
            raise ConfigError(
                f"admission.tenant_weights.{tenant} is {weight!r}; allowed: a number above 0"
            )
    return section.tenant_weights


def engine_gauges(section: AdmissionSection, brain: BrainEngine | None) -> EngineGauges:
    """What is known of the engine. What the configuration says of its cache comes first."""
    info = brain.info if brain else None
    load = brain.load if brain else None
    interval_tokens = section.snapshot_interval_tokens
    if interval_tokens is None and info is not None:
        interval_tokens = info.snapshot_interval_tokens
    return EngineGauges(
        pool_blocks=section.pool_blocks or (info.pool_blocks if info else None),
        block_tokens=section.block_tokens or (info.block_tokens if info else None),
        kv_cache_usage=load.kv_cache_usage if load else None,
        requests_running=load.requests_running if load else None,
        requests_waiting=load.requests_waiting if load else None,
        snapshot_interval_tokens=interval_tokens,
        can_refresh=brain is not None and brain.is_ready and brain.info.can_refresh,
    )
