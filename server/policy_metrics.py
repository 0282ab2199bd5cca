"""The action tier's part of the Prometheus page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from server.policy.driver import PolicyDriver


def policy_metrics(
    policies: Mapping[str, PolicyDriver],
    gauge: Callable[..., Any],
    counter: Callable[..., Any],
) -> Iterator[Any]:
    """One family per figure, labelled by policy. Any thread; reads counters and last states only.

    A figure that is unknown has no sample: 0 would be a wrong one.
    """
    names = ["policy"]
    families = {
        "running": gauge("robot_observations_running", "In a worker", labels=names),
        "waiting": gauge("robot_observations_waiting", "Not started", labels=names),
        "streams": gauge("robot_policy_streams", "Open", labels=names),
        "ready": gauge("robot_policy_workers_ready", "Loaded", labels=names),
        "cycle": gauge(
            "robot_policy_cycle_seconds", "Period in which each stream is served", labels=names
        ),
        "rate": gauge(
            "robot_policy_sustainable_hertz", "Rate one more stream could have", labels=names
        ),
        "chunks": counter("robot_chunks", "Since start", labels=names),
        "failed": counter("robot_chunks_failed", "Since start", labels=names),
        "expired": counter(
            "robot_observations_expired", "Given up after their deadline", labels=names
        ),
        "superseded": counter(
            "robot_observations_superseded", "Replaced by a newer one", labels=names
        ),
        "batches": counter("robot_policy_batches", "Since start", labels=names),
        "refused": counter(
            "robot_policy_streams_refused", "The tier could not carry them", labels=names
        ),
    }
    latency = gauge(
        "robot_policy_batch_latency_seconds",
        "Expected for a batch of this size",
        labels=["policy", "batch_size"],
    )
    for name, driver in policies.items():
        totals, tier = driver.totals, driver.last_tier_status
        values = {
            "running": driver.num_running,
            "waiting": driver.num_waiting,
            "streams": driver.num_streams,
            "ready": driver.num_ready,
            "cycle": tier.cycle_s,
            "rate": tier.sustainable_control_hz,
            "chunks": totals.chunks,
            "failed": totals.failed,
            "expired": totals.expired,
            "superseded": totals.superseded,
            "batches": totals.batches,
            "refused": totals.refused_streams,
        }
        for key, value in values.items():
            if value is not None:
                families[key].add_metric([name], value)
        for row in tier.latencies:
            latency.add_metric([name, str(row.batch_size)], row.latency_s)
    yield from families.values()
    yield latency
