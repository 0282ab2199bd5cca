"""Traces made smaller or faster, so that they fit a small model and a short run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.live.settings import TOKEN_SCALES
from sim.fleet.workload.trace import EpisodeTrace


def scaled(trace: EpisodeTrace, token_scale: float = 1.0, time_scale: float = 1.0) -> EpisodeTrace:
    """The same episode with other lengths and gaps.

    New, kept and output tokens are multiplied and rounded, new and output ones to at least 1. Gaps
    are multiplied: the recorded ones themselves, those of control steps by way of the control rate.
    """
    turns = []
    context_tokens = 0
    for turn in trace.turns:
        new_tokens = max(round(turn.new_tokens * token_scale), 1)
        output_tokens = max(round(turn.output_tokens * token_scale), 1)
        kept_tokens = turn.kept_tokens
        if kept_tokens is not None:
            kept_tokens = min(round(kept_tokens * token_scale), context_tokens)
        wall_gap_s = None if turn.wall_gap_s is None else turn.wall_gap_s * time_scale
        turns.append(
            replace(
                turn,
                new_tokens=new_tokens,
                output_tokens=output_tokens,
                kept_tokens=kept_tokens,
                wall_gap_s=wall_gap_s,
            )
        )
        before = context_tokens if kept_tokens is None else kept_tokens
        context_tokens = before + new_tokens + output_tokens
    return replace(trace, turns=tuple(turns), control_hz=trace.control_hz / time_scale)


def peak_tokens(trace: EpisodeTrace) -> int:
    """The longest prompt with its output."""
    return max(
        prompt_tokens + turn.output_tokens
        for prompt_tokens, turn in zip(trace.prompt_tokens, trace.turns, strict=True)
    )


def check_sendable(
    traces: Sequence[EpisodeTrace], max_context_tokens: int | None, token_scale: float = 1.0
) -> None:
    """Whether conversations over the wire can be these traces.

    Args:
        traces: As they were recorded.
        max_context_tokens: Of the server's model; None: no limit is known.
        token_scale: They are sent scaled by.

    Raises:
        InvalidArgumentError: One is too long, or it takes back what was said.
    """
    for trace in traces:
        for index, turn in enumerate(trace.turns):
            if turn.kept_tokens is not None:
                raise InvalidArgumentError(
                    f"turn {index} gives up a part of the conversation before it (kept_tokens), "
                    "which only the server can do",
                    field="trace",
                    value=trace.trace_id,
                    hint="leave the trace out; replay it in virtual time",
                )
    if max_context_tokens is None:
        return
    longest = max((scaled(trace, token_scale) for trace in traces), key=peak_tokens)
    peak = peak_tokens(longest)
    if peak > max_context_tokens:
        fitting = fitting_scale(traces, max_context_tokens)
        raise InvalidArgumentError(
            "the trace is longer than the context of the server's model",
            field="trace",
            value=f"{longest.trace_id}, {peak} tokens, the longest of {len(traces)}",
            allowed=(f"at most {max_context_tokens} tokens",),
            hint="some have too many turns for any --token-scale; leave those out"
            if fitting is None
            else f"with --token-scale {fitting:g} all traces fit",
        )


def fitting_scale(traces: Sequence[EpisodeTrace], max_context_tokens: int) -> float | None:
    """A token scale of two digits, near the largest, with which every trace fits.

    It is tried and not only computed: lengths are rounded, and no turn has less than a token.
    None: each is too large.
    """
    exact = max_context_tokens / max(peak_tokens(trace) for trace in traces)
    for percent in range(100, 0, -1):
        scale = float(f"{exact * percent / 100:.2g}")
        if scale < TOKEN_SCALES[0]:
            break
        if all(peak_tokens(scaled(trace, scale)) <= max_context_tokens for trace in traces):
            return scale
    return None
