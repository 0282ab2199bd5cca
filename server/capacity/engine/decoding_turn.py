"""A turn that decodes, as long as nothing about it changes what vLLM's pool holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class DecodingTurn:
    """Its steps are counted and told to vLLM when one comes that matters to the pool.

    Attributes:
        request: vLLM's; it stands where the turn was at step `told_step`.
        told_step: Steps of the engine that vLLM knows of for this turn.
        due_step: Number of the step that vLLM has to take itself.
    """

    request: Any
    told_step: int
    due_step: int

    @property
    def name(self) -> str:
        """The turn's."""
        return str(self.request.request_id)

    def position(self, step: int) -> int:
        """Tokens computed before the step of this number."""
        return int(self.request.num_computed_tokens) + step - self.told_step


def decoding_turn(
    request: Any, step: int, block_tokens: int, *, is_first: bool
) -> DecodingTurn | None:
    """What a request of vLLM is from the step of this number on; None: it is in its prefill.

    A step matters if it ends the turn, fills a block, takes a new one, or follows one of a kind
    that leaves an outdated state to be freed: the first after a prefill or after a new block.
    """
    position = request.num_computed_tokens
    if request.num_tokens - position != 1:
        return None
    offset = position % block_tokens
    quiet_steps = 0
    if not is_first and offset > 1:
        quiet_steps = min(
            block_tokens - 1 - offset, request.max_tokens - request.num_output_tokens - 1
        )
    return DecodingTurn(request, step, step + quiet_steps)
