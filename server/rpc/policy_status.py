"""What the fleet's status says about one policy."""

from __future__ import annotations

from robot_sdk.api.v1 import fleet_pb2
from server.policy.driver import PolicyDriver


def policy_status(driver: PolicyDriver) -> fleet_pb2.PolicyStatus:
    """Workers, observations and the tier's pace, as of now."""
    tier = driver.tier_status()
    totals = driver.totals
    return fleet_pb2.PolicyStatus(
        name=driver.name,
        workers=driver.num_workers,
        ready_workers=driver.num_ready,
        running_observations=driver.num_running,
        waiting_observations=driver.num_waiting,
        chunks_total=totals.chunks,
        failed_total=totals.failed,
        superseded_total=totals.superseded,
        batcher=tier.name,
        open_streams=driver.num_streams,
        cycle_s=tier.cycle_s,
        sustainable_control_hz=tier.sustainable_control_hz,
        expired_total=totals.expired,
        refused_streams_total=totals.refused_streams,
        latencies=[
            fleet_pb2.BatchLatency(
                batch_size=row.batch_size, latency_s=row.latency_s, samples=row.num_samples
            )
            for row in tier.latencies
        ],
    )
