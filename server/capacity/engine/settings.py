"""Settings of an engine without a model."""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.errors import InvalidArgumentError
from server.core.capacity import KvPool

#: Values of `retention_tokens`, vLLM's `prefix_cache_retention_interval`.
LATEST_SNAPSHOT = 0
EVERY_SNAPSHOT = None

_MOST_TOKENS = 100_000_000
_MOST_SEQUENCES = 65_536


@dataclass(frozen=True)
class EngineSettings:
    """An engine as the scheduler sees it.

    Attributes:
        pool: Blocks, and how many groups keep a state. There is one group with full attention.
        step_tokens: Most tokens computed in one step (max_num_batched_tokens).
        retention_tokens: Which state snapshots stay in the prefix cache. 0: the one at the last
            whole block of a prompt. None: one for every step of a prefill. Otherwise one in so many
            tokens, a multiple of the block, besides that of 0.
        max_sequences: Most requests that run at once (max_num_seqs).
        max_context_tokens: Longest prompt with its output (max_model_len).

    Raises:
        InvalidArgumentError: A value is out of range.
    """

    pool: KvPool
    step_tokens: int = 16_384
    retention_tokens: int | None = LATEST_SNAPSHOT
    max_sequences: int = 256
    max_context_tokens: int = 262_144

    def __post_init__(self) -> None:
        block_tokens = self.pool.block_tokens
        _check("step tokens", self.step_tokens, block_tokens, _MOST_TOKENS)
        _check("sequences", self.max_sequences, 1, _MOST_SEQUENCES)
        _check("context tokens", self.max_context_tokens, block_tokens, _MOST_TOKENS)
        retention = self.retention_tokens
        if retention is not None and (retention < 0 or retention % block_tokens != 0):
            raise InvalidArgumentError(
                "snapshots can be kept at block boundaries alone",
                field="retention tokens",
                value=retention,
                allowed=(f"0, none, or a multiple of {block_tokens}",),
            )

    @property
    def snapshot_interval_tokens(self) -> int | None:
        """What an engine with these settings tells a ledger; see `EngineGauges`."""
        return self.retention_tokens if self.pool.num_state_groups else None


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidArgumentError(
            "out of range", field=name, value=value, allowed=(f"{least} to {most}",)
        )
