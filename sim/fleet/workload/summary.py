"""What is in a set of traces, in a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.fleet.workload.marginals import columns
from sim.fleet.workload.trace import EpisodeTrace


def summarise(traces: Sequence[EpisodeTrace]) -> dict[str, Any]:
    """Plain values. A quantile is None where the traces do not say."""
    of = columns(traces)
    turns = [turn for trace in traces for turn in trace.turns]
    compactions = sum(turn.kept_tokens is not None for turn in turns)
    return {
        "episodes": len(traces),
        "sources": sorted({trace.source for trace in traces}),
        "tokens_estimated": any(trace.tokens_estimated for trace in traces),
        "successes": sum(trace.success is True for trace in traces),
        "without_verdict": sum(trace.success is None for trace in traces),
        "turns": len(turns),
        "compactions": compactions,
        "chunks": sum(turn.chunks for turn in turns),
        "zero_step_share": float((of.env_s == 0).mean()) if len(of.env_s) else None,
        "turns_per_episode": _quantiles([len(trace.turns) for trace in traces]),
        "peak_context_tokens": _quantiles([max(trace.prompt_tokens) for trace in traces]),
        "total_input_tokens": _quantiles([sum(trace.prompt_tokens) for trace in traces]),
        "prompt_tokens": _quantiles(of.prompt),
        "new_tokens": _quantiles(of.new),
        "output_tokens": _quantiles(of.output),
        "images_in_prompt": _quantiles(of.images),
        "brain_latency_s": _quantiles(of.brain_s),
        "env_gap_s": _quantiles(of.env_s),
        "wall_gap_s": _quantiles(of.wall_s),
    }


def _quantiles(values: Sequence[float] | np.ndarray) -> dict[str, float | int | None]:
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if not len(known):
        return {"count": 0, "mean": None, "p50": None, "p90": None, "max": None}
    p50, p90, most = np.percentile(known, [50, 90, 100])
    return {
        "count": len(known),
        "mean": float(known.mean()),
        "p50": float(p50),
        "p90": float(p90),
        "max": float(most),
    }
