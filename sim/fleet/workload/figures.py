"""Pictures of a workload, as the study draws its own: growth of contexts, and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.fleet.workload.marginals import columns
from sim.fleet.workload.trace import EpisodeTrace

#: With fewer episodes still running quartiles say nothing.
_LEAST_EPISODES = 4
_COLORS = ("#3b6bb5", "#3f9a6b", "#d08a1d", "#b5403b", "#7a5ab5", "#5c5c5c")


def families(traces: Sequence[EpisodeTrace]) -> list[str]:
    """Task families in the order in which they come."""
    return list(dict.fromkeys(trace.task_family for trace in traces))


def draw_growth(axes: Any, traces: Sequence[EpisodeTrace]) -> None:
    """Prompt over turn, a line a family: median and quartiles of the episodes that are so long."""
    for place, family in enumerate(families(traces)):
        prompts = [trace.prompt_tokens for trace in traces if trace.task_family == family]
        turns, quartiles = growth_quartiles(prompts)
        color = _COLORS[place % len(_COLORS)]
        axes.plot(turns, quartiles[1] / 1e3, color=color, label=f"{family} ({len(prompts)})")
        axes.fill_between(
            turns, quartiles[0] / 1e3, quartiles[2] / 1e3, color=color, alpha=0.15, linewidth=0
        )
    axes.set_xlabel("brain turn")
    axes.set_ylabel("prompt [thousand tokens]")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, title="family (episodes)", title_fontsize=8)


def growth_quartiles(prompts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Turns from 1, and the three quartiles at each, shape (3, turns).

    Ends where fewer than four episodes are left, or with the longest of even fewer.
    """
    least = min(_LEAST_EPISODES, len(prompts))
    longest = sorted((len(own) for own in prompts), reverse=True)[least - 1]
    at_turn = [[own[turn] for own in prompts if len(own) > turn] for turn in range(longest)]
    quartiles = np.array([np.percentile(values, [25, 50, 75]) for values in at_turn]).T
    return np.arange(1, longest + 1), quartiles


def draw_gaps(axes: Any, traces: Sequence[EpisodeTrace]) -> None:
    """Shares of intervals that are no longer than so many seconds, on both clocks."""
    of = columns(traces)
    for values, color, label in (
        (of.env_s, _COLORS[0], "control steps / control rate"),
        (of.wall_s, _COLORS[2], "wall clock"),
    ):
        known = np.sort(values[~np.isnan(values)])
        if len(known):
            shares = np.arange(1, len(known) + 1) / len(known)
            axes.step(known, shares, where="post", color=color, label=label)
    if len(of.env_s):
        share = float((of.env_s == 0).mean())
        axes.plot([0], [share], "o", color=_COLORS[0], clip_on=False, zorder=3)
        axes.annotate(f"{share:.1%} move nothing", (0, share), (8, -12), textcoords="offset points")
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("gap between two brain calls [s], logarithmic from 1 s")
    axes.set_ylabel("share of intervals")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
