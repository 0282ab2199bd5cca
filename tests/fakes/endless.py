"""A logits processor of vLLM that keeps a model from ending its answer.

It runs in vLLM's own process.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor


class Endless(LogitsProcessor):
    """No answer ends before its limit."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._end_id: int = vllm_config.model_config.hf_config.eos_token_id

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        logits[:, self._end_id] = float("-inf")
        return logits

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: Any) -> None:
        """Nothing to keep: all requests are treated alike."""
