"""Brain tier: how many conversations keep their prefix in a KV pool.

A turn is cheap as long as the whole earlier conversation is still in the engine's prefix cache. The
sessions that are alive at once are therefore the capacity, not the requests that run at once.

Two rules are given, because they answer different questions. The *estimate* (`cliff_sessions`) is
the study's write-up: a fraction of the pool's tokens over the mean context, which holds without
knowing the model. The *count* (`sessions_that_fit`) adds up blocks the way vLLM's block pool does:
whole blocks, state groups of a hybrid model included. tests/fidelity compares the count with
vLLM's own scheduler: that many sessions survive, and two more never do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from server.core.capacity.checks import positive, whole

#: Share of the pool that holds live prefixes in the worst warm-up order: the study lost every
#: prefix at 29 sessions of 100k tokens in 4,396 blocks of 784, which is 84% of the pool.
CLIFF_FRACTION = 0.85

#: Where to start below the cliff. The study's fleets were healthy at 20 robots with the cliff at
#: 30; at 24 four of six collapsed within 20 minutes.
START_FRACTION = 2 / 3

MOST_BLOCKS = 1_000_000_000
MOST_BLOCK_TOKENS = 1_000_000
MOST_CONTEXT_TOKENS = 1_000_000_000
MOST_STATE_GROUPS = 64


@dataclass(frozen=True)
class KvPool:
    """An engine's KV pool.

    Attributes:
        num_blocks: Blocks in the pool. vLLM keeps one of them back as its null block.
        block_tokens: Tokens in a block.
        num_state_groups: KV cache groups that keep a recurrent state instead of keys and values
            (3 for Qwen3.6-27B, 0 for a model with attention alone). Each snapshot of a state takes
            one block of the same pool.

    Raises:
        InvalidArgumentError: A value is out of bounds.
    """

    num_blocks: int
    block_tokens: int
    num_state_groups: int = 0

    def __post_init__(self) -> None:
        whole("pool blocks", self.num_blocks, 2, MOST_BLOCKS)
        whole("block tokens", self.block_tokens, 1, MOST_BLOCK_TOKENS)
        whole("state groups", self.num_state_groups, 0, MOST_STATE_GROUPS)

    @property
    def tokens(self) -> int:
        """Nominal capacity: blocks times tokens in a block."""
        return self.num_blocks * self.block_tokens


def cliff_sessions(pool: KvPool, mean_context_tokens: float) -> float:
    """Sessions at which prefixes start to push each other out, by the study's estimate.

    0.85 * pool tokens / mean context. The mean is over the sessions that are alive together, not
    over their final lengths.
    """
    context_tokens = positive("mean context tokens", mean_context_tokens, MOST_CONTEXT_TOKENS)
    return CLIFF_FRACTION * pool.tokens / context_tokens


def starting_cap(cliff: float) -> int:
    """Admission cap to start from: two thirds of the cliff, to the nearest whole episode.

    0 where not even one and a half sessions fit.
    """
    return math.floor(START_FRACTION * cliff + 0.5)


def prefill_snapshots(context_tokens: float, block_tokens: int, step_tokens: int) -> int:
    """State snapshots that computing a prompt leaves behind in each group, if all are kept.

    vLLM's "align" mode ends each step of a prefill on a block boundary and stores the state there:
    ceil(context / (floor(step / block) * block)), with the most tokens in one step of the engine
    (max_num_batched_tokens) as step.
    """
    positive("mean context tokens", context_tokens, MOST_CONTEXT_TOKENS)
    whole("block tokens", block_tokens, 1, MOST_BLOCK_TOKENS)
    whole("step tokens", step_tokens, block_tokens, MOST_CONTEXT_TOKENS)
    return math.ceil(context_tokens / (step_tokens // block_tokens * block_tokens))


def session_blocks(pool: KvPool, context_tokens: float, snapshots_per_group: int = 1) -> int:
    """Blocks that one session holds: whole attention blocks and its state snapshots.

    `snapshots_per_group` is 1 where the engine keeps only the state at the end of the latest
    prompt, and `prefill_snapshots` where it keeps all.
    """
    positive("mean context tokens", context_tokens, MOST_CONTEXT_TOKENS)
    whole("snapshots per group", snapshots_per_group, 1, MOST_BLOCKS)
    attention_blocks = math.ceil(context_tokens / pool.block_tokens)
    return attention_blocks + pool.num_state_groups * snapshots_per_group


def sessions_that_fit(pool: KvPool, blocks_per_session: int) -> int:
    """Whole sessions in the pool, the null block left out."""
    whole("blocks per session", blocks_per_session, 1, 2 * MOST_CONTEXT_TOKENS)
    return (pool.num_blocks - 1) // blocks_per_session


def turns_per_s(num_sessions: int, turn_cycle_s: float) -> float:
    """Brain turns a second of a fleet, by Little's law.

    Args:
        num_sessions: Episodes inside at once.
        turn_cycle_s: From one turn of a robot to its next: brain latency and the robot's own time.
    """
    whole("sessions", num_sessions, 0, MOST_BLOCKS)
    return num_sessions / positive("turn cycle", turn_cycle_s, 86_400.0)
