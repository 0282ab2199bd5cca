"""Token counts as endpoints report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robot_sdk.messages import TokenUsage


@dataclass(frozen=True)
class ReportedUsage:
    """What the newest counts of a stream say; None is not told.

    Endpoints send counts with the last chunk, in a chunk of their own, with every chunk, or twice;
    a later number replaces an earlier one, and a count that is missing later keeps its value.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    def updated(self, usage: Any) -> ReportedUsage:
        """With the `usage` of one more chunk. What is no count is passed over."""
        if not isinstance(usage, Mapping):
            return self
        details = usage.get("prompt_tokens_details")
        cached = _count(details, "cached_tokens")
        if cached is None:
            # DeepSeek's name for it.
            cached = _count(usage, "prompt_cache_hit_tokens")
        prompt = _count(usage, "prompt_tokens")
        output = _count(usage, "completion_tokens")
        return ReportedUsage(
            self.prompt_tokens if prompt is None else prompt,
            self.cached_tokens if cached is None else cached,
            self.output_tokens if output is None else output,
        )


def token_usage(
    reported: ReportedUsage, previous: ReportedUsage | None, num_images: int
) -> TokenUsage | None:
    """The usage of a turn; None if the endpoint did not count the prompt.

    `new_tokens` is what the prompt has beyond the previous prompt and its answer. That is exact if
    the endpoint renders the history as the model wrote it. Where it does not (a template that
    strips thinking), the difference is too small, and unknown if it is negative.

    Args:
        reported: Counts of this turn.
        previous: Counts of the previous turn; None for the first turn.
        num_images: Pictures in the whole prompt.
    """
    if reported.prompt_tokens is None:
        return None
    new: int | None = reported.prompt_tokens
    if previous is not None:
        new = None
        if previous.prompt_tokens is not None and previous.output_tokens is not None:
            difference = reported.prompt_tokens - previous.prompt_tokens - previous.output_tokens
            new = difference if difference >= 0 else None
    cached = reported.cached_tokens
    if cached is not None and cached > reported.prompt_tokens:
        cached = None
    return TokenUsage(
        input_tokens=reported.prompt_tokens,
        cached_tokens=cached,
        computed_tokens=None if cached is None else reported.prompt_tokens - cached,
        output_tokens=reported.output_tokens,
        new_tokens=new,
        num_images=num_images,
    )


def _count(fields: Any, name: str) -> int | None:
    value = fields.get(name) if isinstance(fields, Mapping) else None
    return value if type(value) is int and 0 <= value < 2**32 else None
