"""What a running server knows of its own capacity: pool, contexts, policy latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.plain_text import counted
from server.core.batching.latency_table import LatencyRow, LatencyTable


@dataclass(frozen=True)
class Measured:
    """Figures of a server. None: it does not tell.

    Attributes:
        context_note: How the mean context came about.
        policy_workers: Replicas of the policy that `table` is of.
    """

    engine: str
    pool_blocks: int | None
    block_tokens: int | None
    mean_context_tokens: float | None
    context_note: str
    table: LatencyTable | None
    policy_workers: int | None


def read_status(status: fleet_pb2.FleetStatus, policy: str | None = None) -> Measured:
    """Take the figures out of a status that lists episodes.

    Raises:
        InvalidArgumentError: The server serves no policy of that name.
    """
    load = status.brain.load if status.brain.HasField("load") else fleet_pb2.EngineLoad()
    context_tokens, note = _mean_context(status)
    table, workers = _policy(status.policies, policy)
    return Measured(
        engine=status.brain.engine if status.HasField("brain") else "",
        pool_blocks=load.pool_blocks if load.HasField("pool_blocks") else None,
        block_tokens=load.block_tokens if load.HasField("block_tokens") else None,
        mean_context_tokens=context_tokens,
        context_note=note,
        table=table,
        policy_workers=workers,
    )


def _mean_context(status: fleet_pb2.FleetStatus) -> tuple[float | None, str]:
    prefix = status.brain.prefix
    if prefix.HasField("mean_context_tokens") and prefix.mean_context_tokens > 0:
        return prefix.mean_context_tokens, "mean of its ledger"
    contexts = [
        episode.context_tokens
        for episode in status.episodes
        if episode.HasField("context_tokens") and episode.context_tokens > 0
    ]
    if not contexts:
        return None, ""
    return sum(contexts) / len(contexts), f"mean of {counted(len(contexts), 'episode')} inside"


def _policy(
    policies: Sequence[fleet_pb2.PolicyStatus], name: str | None
) -> tuple[LatencyTable | None, int | None]:
    if name is not None:
        chosen = [status for status in policies if status.name == name]
        if not chosen:
            raise InvalidArgumentError(
                "the server does not serve this policy",
                field="--policy",
                value=name,
                allowed=[status.name for status in policies] or ["(it serves no policy)"],
            )
    elif len(policies) > 1:
        raise InvalidArgumentError(
            "the server serves several policies; say which",
            field="--policy",
            allowed=[status.name for status in policies],
        )
    else:
        chosen = list(policies)
    if not chosen:
        return None, None
    return _latencies(chosen[0]), chosen[0].workers or None


def _latencies(policy: fleet_pb2.PolicyStatus) -> LatencyTable | None:
    rows = {
        row.batch_size: LatencyRow(row.batch_size, row.latency_s)
        for row in policy.latencies
        if row.batch_size > 0 and row.latency_s > 0
    }
    if not rows:
        return None
    return LatencyTable(
        policy=policy.name,
        device="the server's",
        dtype="unknown",
        measured_on="a running server",
        num_warmups=0,
        num_runs=max(1, min((row.samples for row in policy.latencies), default=1)),
        rows=tuple(rows[batch] for batch in sorted(rows)),
    )
