"""What a turn used, from the engine's own figures."""

from __future__ import annotations

from typing import Protocol

from robot_sdk.messages import TokenUsage
from server.brain.interface import Timing


class RequestTimes(Protocol):
    """vLLM's RequestStateStats: seconds of the machine's monotonic clock; 0.0 is "not yet"."""

    queued_ts: float
    scheduled_ts: float
    first_token_ts: float
    last_token_ts: float


def token_usage(
    *,
    prompt_tokens: int,
    cached_tokens: int | None,
    output_tokens: int,
    expected_prefix_tokens: int,
    num_images: int,
) -> TokenUsage:
    """Usage of one turn.

    Args:
        prompt_tokens: The whole prompt as the model saw it.
        cached_tokens: Of it, found in the cache. None: the engine did not say, which is not 0.
        output_tokens: What the model wrote, with the token that ended it.
        expected_prefix_tokens: Front of the prompt that was there before; 0 on a first turn.
        num_images: Pictures in the whole prompt.
    """
    return TokenUsage(
        input_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        computed_tokens=None if cached_tokens is None else prompt_tokens - cached_tokens,
        output_tokens=output_tokens,
        new_tokens=prompt_tokens - expected_prefix_tokens,
        num_images=num_images,
    )


def timing(times: RequestTimes | None, received_s: float, delay_s: float) -> Timing:
    """Where the time of a turn went.

    Args:
        times: None: the engine keeps no such figures.
        received_s: When the turn came to the worker, on the same clock.
        delay_s: The part of the time before the engine that was added on purpose.
    """
    modelled_s = delay_s or None
    if times is None:
        return Timing(modelled_delay_s=modelled_s)
    before_s = _span_s(received_s, times.queued_ts)
    return Timing(
        queue_s=_span_s(times.queued_ts, times.scheduled_ts),
        preprocess_s=None if before_s is None else max(0.0, before_s - delay_s),
        prefill_s=_span_s(times.scheduled_ts, times.first_token_ts),
        decode_s=_span_s(times.first_token_ts, times.last_token_ts),
        modelled_delay_s=modelled_s,
    )


def _span_s(start_s: float, end_s: float) -> float | None:
    return max(0.0, end_s - start_s) if start_s and end_s else None
