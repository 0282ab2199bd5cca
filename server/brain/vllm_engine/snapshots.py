"""Where vLLM keeps snapshots of what layers with a state or a sliding window need to go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Kinds of cache groups that vLLM thins out by prefix_cache_retention_interval (its
#: KVCacheSpecKind). Groups with full attention keep every block.
_THINNED_KINDS = frozenset({"mamba", "sliding_window", "sliding_window_mla"})


async def snapshot_interval_tokens(engine: Any) -> int | None:
    """EngineInfo.snapshot_interval_tokens of a loaded AsyncLLM.

    The engine process is asked which groups its cache has: a model may have layers of such kinds
    and vLLM may still keep all of them as full attention.
    """
    # Versions without the setting keep every snapshot.
    cache = engine.vllm_config.cache_config
    interval: int | None = getattr(cache, "prefix_cache_retention_interval", None)
    if interval is None:
        return None
    groups = await engine.engine_core.call_utility_async("get_kv_cache_group_metadata")
    return interval if has_thinned_groups(group["kind"] for group in groups) else None


def has_thinned_groups(kinds: Iterable[str]) -> bool:
    """Whether an interval has an effect on a cache with groups of these kinds."""
    return not _THINNED_KINDS.isdisjoint(kinds)
