"""An executor of vLLM without a model: every step costs nothing and makes up its tokens.

All else is vLLM's own: AsyncLLM, its engine process, scheduler, block pool and counters.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import torch
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.kv_cache_layout import KVCacheLayout
from vllm.v1.outputs import ModelRunnerOutput

#: Any plain token of the tiny tokenizer: single bytes come first.
_FIRST_TOKEN, _NUM_TOKENS = 40, 50


class NoModelExecutor(Executor):
    """`distributed_executor_backend = "tests.bench._support_no_model.NoModelExecutor"`."""

    def _init_executor(self) -> None:
        #: By request: tokens of the prompt, tokens computed, tokens made.
        self._requests: dict[str, list[int]] = {}

    def collective_rpc(
        self, method: Any, timeout: float | None = None, args: Any = (), kwargs: Any = None,
        non_block: bool = False, **_: Any,
    ) -> Any:  # fmt: skip
        answers = [("generate",) if method == "get_supported_tasks" else None]
        return _done(answers) if non_block else answers

    def check_health(self) -> None:
        """Nothing can fail."""

    def shutdown(self) -> None:
        """Nothing to end."""

    def initialize_from_config(self, kv_cache_configs: Any) -> None:
        """No memory is taken."""

    def compile_or_warm_up_model(self) -> None:
        """There is no model."""

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        block_tokens = self.cache_config.block_size
        spec = FullAttentionSpec(
            block_size=block_tokens, num_kv_heads=1, head_size=1, dtype=torch.float32
        )
        return [{"layers.0": spec}]

    def determine_available_memory(self) -> list[int]:
        return [64 << 30]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        return [[layout.name for layout in KVCacheLayout]]

    def set_kv_cache_layout(self, name: str) -> None:
        """No cache, no layout."""

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        for name in scheduler_output.finished_req_ids:
            self._requests.pop(name, None)
        for new in scheduler_output.scheduled_new_reqs:
            self._requests[new.req_id] = [len(new.prompt_token_ids), new.num_computed_tokens, 0]
        cached = scheduler_output.scheduled_cached_reqs
        for name, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            self._requests[name][1] = computed
        names = list(scheduler_output.num_scheduled_tokens)
        output = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[
                self._sampled(name, scheduler_output.num_scheduled_tokens[name]) for name in names
            ],
        )
        return _done(output) if non_block else output

    def _sampled(self, name: str, scheduled_tokens: int) -> list[int]:
        request = self._requests[name]
        prompt_tokens, computed, made = request
        if computed + scheduled_tokens < prompt_tokens + made:
            return []
        request[2] += 1
        return [_FIRST_TOKEN + (prompt_tokens + made) % _NUM_TOKENS]

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        return False


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future
