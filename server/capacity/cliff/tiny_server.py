"""The settings of a server with a tiny random model and a pool that a few robots fill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

POOL_BLOCKS = 256
BLOCK_TOKENS = 32
_CONTEXT_TOKENS = 2048
#: vLLM loads in 15 s on two idle cores and takes minutes when others keep them busy.
START_TIMEOUT_S = 300.0

ENVIRONMENT: Mapping[str, str] = {
    # Of vLLM's CPU build: one GiB is reserved for the cache, of which the pool takes a part.
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # The model runs in the engine's process. By default one more is started for it, and importing
    # vLLM is nearly all that a start takes.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # One thread, on any core. Two wait for each other where other jobs keep the cores busy: rounds
    # of 2 s took 20 to 80 s.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def settings(model: Path) -> list[str]:
    """`section.key=value`, as for `--set`."""
    return [
        'server.roles=["brain"]',
        'admission.policy="static-cap"',
        "telemetry.prometheus_port=0",
        'brain.engine="vllm"',
        f'vllm.model="{model}"',
        'vllm.load_format="dummy"',
        "vllm.enforce_eager=true",
        # Share of the memory of whatever it runs on; a busy machine has not all of it free.
        "vllm.gpu_memory_utilization=0.1",
        f"vllm.num_gpu_blocks_override={POOL_BLOCKS}",
        f"vllm.block_size={BLOCK_TOKENS}",
        f"vllm.max_model_len={_CONTEXT_TOKENS}",
        f"vllm.max_num_batched_tokens={_CONTEXT_TOKENS}",
        "vllm.max_num_seqs=8",
        'vllm.tool_call_parser=""',
        "vllm.max_output_tokens=4",
    ]
