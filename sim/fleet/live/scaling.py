"""Traces made smaller or faster, so that they fit a small model and a short run."""

from __future__ import annotations

from dataclasses import replace

from robot_sdk.errors import InvalidArgumentError
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


def check_sendable(trace: EpisodeTrace, max_context_tokens: int | None) -> None:
    """Whether a conversation over the wire can be this trace.

    Args:
        trace: As it is sent.
        max_context_tokens: Of the server's model; None: no limit is known.

    Raises:
        InvalidArgumentError: It is too long, or it takes back what was said.
    """
    for index, turn in enumerate(trace.turns):
        if turn.kept_tokens is not None:
            raise InvalidArgumentError(
                f"turn {index} gives up a part of the conversation before it (kept_tokens), which "
                "only the server can do",
                field="trace",
                value=trace.trace_id,
                hint="leave the trace out; replay it in virtual time",
            )
    peak = peak_tokens(trace)
    if max_context_tokens is not None and peak > max_context_tokens:
        raise InvalidArgumentError(
            "the trace is longer than the context of the server's model",
            field="trace",
            value=f"{trace.trace_id}, {peak} tokens",
            allowed=(f"at most {max_context_tokens} tokens",),
            hint=f"make all traces smaller by another {max_context_tokens / peak:.2g} or less with "
            "--token-scale, or leave it out",
        )
