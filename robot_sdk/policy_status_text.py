"""How a policy's batcher keeps up, as lines for an operator."""

from __future__ import annotations

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.plain_text import counted


def batcher_lines(policy: fleet_pb2.PolicyStatus) -> list[str]:
    """Streams, pacing and learned latencies. A server that tells none of it gets no line."""
    if not policy.batcher:
        return []
    words = [f"{policy.batcher} batches, {counted(policy.open_streams, 'open stream')}"]
    if policy.HasField("cycle_s"):
        words.append(f"each served every {policy.cycle_s * 1e3:.0f} ms")
    if policy.HasField("sustainable_control_hz"):
        words.append(f"one more could run at {policy.sustainable_control_hz:.1f} Hz")
    if policy.expired_total:
        words.append(f"{counted(policy.expired_total, 'observation')} expired")
    if policy.refused_streams_total:
        words.append(f"{counted(policy.refused_streams_total, 'stream')} refused")
    if policy.latencies:
        table = ", ".join(
            f"{row.batch_size}: {row.latency_s * 1e3:.0f}" for row in policy.latencies
        )
        words.append(f"ms by batch size {table}")
    return [f"  {'; '.join(words)}"]
