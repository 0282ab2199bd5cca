"""Metric families of the brain tier: the door, the prefix ledger, and the engine's own counters.

Every series is there from the first scrape on, with NaN while a value is unknown, and no label
takes its values from a robot: the number of series never grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from server.brain.interface import BrainEngine, EngineLoad
from server.core.fleet_watch import FleetReport
from server.core.residency import ALERT_NAMES, PrefixOutcome

_UNKNOWN = math.nan


def door_metrics(policy: str, report: FleetReport) -> Iterator[Metric]:
    """The admission policy and what it works with."""
    info = GaugeMetricFamily("robot_admission_policy", "1 for the running one", labels=["policy"])
    info.add_metric([policy], 1)
    yield info
    admission = report.admission
    yield _gauge("robot_admission_cap", "Most episodes inside; NaN: no cap", report.cap)
    yield _gauge(
        "robot_admission_forecast_blocks",
        "KV blocks that the episodes inside are priced at",
        admission.forecast_blocks,
    )
    yield _gauge(
        "robot_admission_capacity_blocks",
        "KV blocks that the policy hands out",
        admission.capacity_blocks,
    )


def prefix_metrics(report: FleetReport) -> Iterator[Metric]:
    """The prefix ledger and the alerts."""
    snapshot = report.snapshot
    window, totals = snapshot.window, snapshot.totals
    for name, words, value in (
        ("full_prefix_hit", "Share of turns that found their prefix whole", window.full_prefix_hit),
        ("window_turns", "Turns with a prefix to lose in the window", window.num_counted),
        ("computed_per_generated", "Prompt tokens per output token", window.computed_per_generated),
        (
            "baseline_computed_per_generated",
            "The same in healthy windows",
            snapshot.baseline_computed_per_generated,
        ),
        ("reuse_distance_blocks_p50", "Median of newest turns", snapshot.reuse_distance_blocks_p50),
        ("reuse_distance_blocks_p90", "Of newest turns", snapshot.reuse_distance_blocks_p90),
        ("working_set_tokens", "Contexts of the episodes inside", snapshot.working_set_tokens),
        ("working_set_blocks", "The same in KV blocks", snapshot.working_set_blocks),
        ("forecast_blocks", "The same when they have grown", snapshot.forecast_blocks),
        ("capacity_blocks", "KV blocks taken to survive", snapshot.capacity_blocks),
        ("survived_blocks", "KV blocks seen to survive", snapshot.survived_blocks),
        ("mean_context_tokens", "Of episodes inside with a turn", snapshot.mean_context_tokens),
    ):
        yield _gauge(f"robot_prefix_{name}", words, value)
    turns = CounterMetricFamily(
        "robot_prefix_turns", "Turns by what they found of their prefix", labels=["outcome"]
    )
    for outcome in PrefixOutcome:
        turns.add_metric([outcome.value], totals.turns.get(outcome, 0))
    yield turns
    refreshes = CounterMetricFamily(
        "robot_prefix_refreshes",
        "Prefixes of idle episodes that the engine touched, by what it had of them",
        labels=["outcome"],
    )
    refreshes.add_metric(["found"], totals.refreshes_found)
    refreshes.add_metric(["lost"], totals.refreshes_lost)
    yield refreshes
    for name, tokens in (
        ("cached", totals.cached_tokens),
        ("computed", totals.computed_tokens),
        ("generated", totals.generated_tokens),
    ):
        yield CounterMetricFamily(
            f"robot_turn_{name}_tokens", "Of committed turns that tell", value=tokens
        )
    standing = {alert.finding.name for alert in report.alerts}
    alerts = GaugeMetricFamily("robot_alert", "1 while the alert stands", labels=["alert"])
    for name in ALERT_NAMES:
        alerts.add_metric([name], name in standing)
    yield alerts


def engine_metrics(brain: BrainEngine, report: FleetReport) -> Iterator[Metric]:
    """What the engine says of itself, beside what was seen of it from outside."""
    load = brain.load or EngineLoad()
    yield _gauge("robot_engine_pool_blocks", "KV pool", report.engine.pool_blocks)
    yield _gauge("robot_engine_block_tokens", "In one block", report.engine.block_tokens)
    yield _gauge(
        "robot_engine_kv_cache_usage",
        "Share of the pool held by running requests; idle prefixes are not in it",
        load.kv_cache_usage,
    )
    yield _gauge("robot_engine_requests_running", "In the engine", load.requests_running)
    yield _gauge("robot_engine_requests_waiting", "In the engine", load.requests_waiting)
    for name, value in (
        ("preemptions", load.preemptions_total),
        ("prompt_tokens", load.prompt_tokens_total),
        ("cached_tokens", load.cached_tokens_total),
        ("generated_tokens", load.generated_tokens_total),
    ):
        yield CounterMetricFamily(
            f"robot_engine_{name}",
            "Since the engine started",
            value=_UNKNOWN if value is None else value,
        )


def _gauge(name: str, words: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=_UNKNOWN if value is None else value)
