"""The brain's part of the fleet's status: prefix ledger, engine gauges, alerts."""

from __future__ import annotations

from robot_sdk.api.v1 import fleet_pb2
from server.brain.interface import BrainEngine
from server.core.fleet_watch import FleetReport
from server.core.residency import EngineGauges, LedgerSnapshot
from server.rpc.services import BrainTotals


def brain_status(
    engine: BrainEngine, totals: BrainTotals, report: FleetReport
) -> fleet_pb2.BrainStatus:
    """All of it. `report` is as of now."""
    snapshot = report.snapshot
    return fleet_pb2.BrainStatus(
        engine=engine.info.engine,
        model=engine.info.model,
        running_turns=engine.num_running,
        waiting_turns=engine.num_waiting,
        committed_turns_total=totals.committed,
        replayed_turns_total=totals.replayed,
        aborted_turns_total=totals.aborted,
        ready=engine.is_ready,
        problem=engine.problem,
        prefix=_prefix(engine, snapshot),
        load=_load(engine, report.engine),
        alerts=[
            fleet_pb2.Alert(
                name=alert.finding.name,
                evidence=alert.finding.evidence,
                advice=alert.finding.advice,
                age_s=snapshot.now_s - alert.since_s,
            )
            for alert in report.alerts
        ],
    )


def _prefix(engine: BrainEngine, snapshot: LedgerSnapshot) -> fleet_pb2.PrefixStatus:
    window, totals = snapshot.window, snapshot.totals
    can_refresh = engine.info.can_refresh
    return fleet_pb2.PrefixStatus(
        window_s=snapshot.window_s,
        turns_in_window=window.num_counted,
        full_prefix_hit=window.full_prefix_hit,
        computed_per_generated=window.computed_per_generated,
        baseline_computed_per_generated=snapshot.baseline_computed_per_generated,
        computed_tokens_per_min=snapshot.computed_tokens_per_min,
        generated_tokens_per_min=snapshot.generated_tokens_per_min,
        reuse_distance_blocks_p50=snapshot.reuse_distance_blocks_p50,
        reuse_distance_blocks_p90=snapshot.reuse_distance_blocks_p90,
        working_set_tokens=snapshot.working_set_tokens,
        working_set_blocks=snapshot.working_set_blocks,
        forecast_blocks=snapshot.forecast_blocks,
        learned_capacity_blocks=snapshot.survived_blocks,
        mean_context_tokens=snapshot.mean_context_tokens,
        refreshes_found_total=totals.refreshes_found if can_refresh else None,
        refreshes_lost_total=totals.refreshes_lost if can_refresh else None,
    )


def _load(engine: BrainEngine, gauges: EngineGauges) -> fleet_pb2.EngineLoad | None:
    """None if the engine says nothing at all."""
    load = engine.load
    status = fleet_pb2.EngineLoad(
        pool_blocks=gauges.pool_blocks,
        block_tokens=gauges.block_tokens,
        max_context_tokens=engine.info.max_context_tokens,
        snapshot_interval_tokens=gauges.snapshot_interval_tokens,
    )
    if load is not None:
        status.MergeFrom(
            fleet_pb2.EngineLoad(
                kv_cache_usage=load.kv_cache_usage,
                requests_running=load.requests_running,
                requests_waiting=load.requests_waiting,
                preemptions_total=load.preemptions_total,
                prompt_tokens_total=load.prompt_tokens_total,
                cached_tokens_total=load.cached_tokens_total,
                generated_tokens_total=load.generated_tokens_total,
            )
        )
    return status if status.ByteSize() else None
