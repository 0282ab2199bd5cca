"""What an engine says of its cache and its queue, as far as decisions look at it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineGauges:
    """Newest values; None is not told by this engine.

    Attributes:
        pool_blocks: Size of the KV cache pool.
        block_tokens: Tokens in one of its blocks.
        kv_cache_usage: Share of the pool that running requests hold, 0 to 1. Prefixes of idle
            episodes are not in it, so a low value does not mean that there is room.
        requests_running, requests_waiting: In the engine, not at the door.
        snapshot_interval_tokens: Where the engine keeps what layers with a state or a sliding
            window need to go on. None: at every block, no such layers, or not told. 0: at the end
            of each prompt alone. N: also every N tokens.
        can_refresh: Whether it can be asked to touch the prefix of an episode.
    """

    pool_blocks: int | None = None
    block_tokens: int | None = None
    kv_cache_usage: float | None = None
    requests_running: int | None = None
    requests_waiting: int | None = None
    snapshot_interval_tokens: int | None = None
    can_refresh: bool = False


#: An engine that tells nothing.
SILENT_ENGINE = EngineGauges()
