"""An engine of vLLM without a model, as the benchmarks of the brain's path set it up."""

from __future__ import annotations

from typing import Any

EXECUTOR = "tests.bench._support_no_model.NoModelExecutor"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
#: By the names of AsyncEngineArgs; pool and blocks of the study.
ENGINE: dict[str, Any] = {
    "load_format": "dummy",
    "dtype": "bfloat16",
    "enforce_eager": True,
    "block_size": 784,
    "num_gpu_blocks_override": 4270,
    "max_model_len": 262_144,
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 16,
}
