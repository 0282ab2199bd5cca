"""How long an engine's steps take: the brain tier's clock in a replay.

A step of vLLM reads the weights once, computes the prompt pieces that were scheduled and reads the
keys and values of every turn that decodes. So it takes

    step + sum over prompt pieces (c * n + d * (end^2 - start^2))
         + decode * (longest context + share * all other contexts)

with n tokens from position `start` to `end`. `c` is the work of a token that does not depend on
what stands before it, `d` that of attention over what does. Where a single turn
cannot keep a GPU's memory busy, a second one adds less than the first (`share` under 1).

Before an engine sees a turn its prompt is received, checked and hashed: `request` and
`request_token` delay that turn and nothing else.

Where the constants come from is in the tables; see `sim.fleet.brain.cost_table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine import ScheduledTokens

#: No constant of a GPU that serves robots is larger: a minute for an empty step, 10 ms for a token.
_MOST = {"step_s": 60.0, "request_s": 60.0, "batched_decode_share": 1.0}
_MOST_PER_TOKEN = 0.01
#: No step of a model is shorter than the launch of its kernels.
_LEAST_STEP_S = 1e-4


@dataclass(frozen=True)
class CostModel:
    """Constants of one model on one set of GPUs. Seconds.

    Attributes:
        step_s: A step without tokens: launching it and reading the weights. At least 0.1 ms.
        prefill_token_s: `c`, per prompt token computed.
        prefill_pair_s: `d`, per square of a position; see the formula above.
        decode_context_token_s: Per token of context of a turn that decodes alone.
        batched_decode_share: Of that, what every further turn in the step costs; 0 to 1.
        request_s: A turn's way into the engine.
        request_token_s: The same, per token of its prompt.

    Raises:
        InvalidArgumentError: A constant is missing, negative, not finite or out of range.
    """

    step_s: float
    prefill_token_s: float
    prefill_pair_s: float
    decode_context_token_s: float
    batched_decode_share: float = 1.0
    request_s: float = 0.0
    request_token_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            most = _MOST.get(field.name, _MOST_PER_TOKEN)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= most:  # nothing else is finite
                raise InvalidArgumentError(
                    "a cost is out of range",
                    field=field.name,
                    value=value if is_number else repr(value),
                    allowed=(f"0 to {most:g}",),
                )
        if self.step_s < _LEAST_STEP_S:
            raise InvalidArgumentError(
                "virtual time would stand still",
                field="step_s",
                value=self.step_s,
                allowed=(f"{_LEAST_STEP_S:g} or more",),
            )

    def before_engine_s(self, num_prompt_tokens: int) -> float:
        """From a turn's arrival to its place in the engine's queue."""
        return self.request_s + self.request_token_s * num_prompt_tokens

    def step_time_s(self, scheduled: Iterable[ScheduledTokens]) -> float:
        """One step with what vLLM scheduled for it."""
        time_s = self.step_s
        longest = others = 0
        for piece in scheduled:
            if piece.is_prefill:
                squares = piece.end * piece.end - piece.start * piece.start
                time_s += self.prefill_token_s * (piece.end - piece.start)
                time_s += self.prefill_pair_s * squares
            elif piece.end > longest:
                others += longest
                longest = piece.end
            else:
                others += piece.end
        return time_s + self._decode_s(longest, others)

    def stretch_time_s(self, contexts: Sequence[int], num_steps: int) -> float:
        """`num_steps` steps in which turns decode and nothing else happens.

        Args:
            contexts: Tokens computed of each turn before the first of the steps; the first step
                then reads one more of each.
            num_steps: At least 1.
        """
        longest = max(contexts)
        num_others = len(contexts) - 1
        growth = num_steps * (num_steps + 1) // 2
        return num_steps * self.step_s + self._decode_s(
            num_steps * longest + growth,
            num_steps * (sum(contexts) - longest) + num_others * growth,
        )

    def _decode_s(self, longest: int, others: int) -> float:
        return self.decode_context_token_s * (longest + self.batched_decode_share * others)
