from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from server.brain.vllm_engine.snapshots import snapshot_interval_tokens


class EngineCore:
    """Answers as vLLM's engine process does."""

    def __init__(self, kinds: list[str]) -> None:
        self._kinds = kinds

    async def call_utility_async(self, method: str) -> list[dict[str, Any]]:
        assert method == "get_kv_cache_group_metadata"
        return [{"group_idx": n, "kind": kind} for n, kind in enumerate(self._kinds)]


def interval(kinds: list[str], **cache: Any) -> int | None:
    config = SimpleNamespace(cache_config=SimpleNamespace(**cache))
    engine = SimpleNamespace(vllm_config=config, engine_core=EngineCore(kinds))
    return asyncio.run(snapshot_interval_tokens(engine))


@pytest.mark.parametrize("state", ["mamba", "sliding_window"])
@pytest.mark.parametrize("told", [None, 0, 7_840])
def test_a_hybrid_model_keeps_snapshots_as_vllm_was_told(state: str, told: int | None) -> None:
    kinds = ["full_attention", state]

    assert interval(kinds, prefix_cache_retention_interval=told) == told


def test_a_model_with_full_attention_alone_has_none_to_thin_out() -> None:
    assert interval(["full_attention"], prefix_cache_retention_interval=0) is None


def test_a_vllm_without_the_setting_keeps_every_snapshot() -> None:
    assert interval(["full_attention", "mamba"]) is None
