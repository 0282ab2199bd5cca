"""The three clocks as distributions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robot_sdk.trace import study
from robot_sdk.trace.join import EpisodeTrace
from robot_sdk.trace.report import episode_clocks
from robot_sdk.trace.timeline import new_figure

_CLOCKS = (
    ("brain_latency", "brain latency", "#3b6bb5"),
    ("env_step_gap", "env-step gap", "#3f9a6b"),
    ("wall_clock_gap", "wall-clock gap", "#d08a1d"),
)


def draw_clocks(episodes: Sequence[EpisodeTrace], path: Path, *, with_study: bool = False) -> None:
    """Write a PNG with the cumulative distribution of each clock over all episodes.

    The time axis is linear up to 0.1 s and logarithmic above, because a large share of the
    intervals has no step at all. With the study, its median and P90 are crosses.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    figure = new_figure(10.0, 6.0)
    axes = figure.add_subplot()
    clocks = [episode_clocks(episode) for episode in episodes]
    for name, title, color in _CLOCKS:
        samples = np.sort([sample for item in clocks for sample in item.samples(name)])
        if samples.size:
            share = np.arange(1, samples.size + 1) / samples.size
            axes.step(
                np.concatenate(([samples[0]], samples)),
                np.concatenate(([0.0], share)),
                where="post",
                color=color,
                linewidth=2,
                label=f"{title} (n={samples.size})",
            )
        if with_study:
            theirs = study.CLOCKS[name]
            axes.plot(
                [theirs.p50_s, theirs.p90_s],
                [0.5, 0.9],
                linestyle="none",
                marker="x",
                markersize=9,
                markeredgewidth=2,
                color=color,
                label=f"{title}, the study's median and P90",
            )
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.3)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.01)
    ticks = [0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    right = axes.get_xlim()[1]
    axes.set_xticks([tick for tick in ticks if tick <= right])
    axes.set_xticklabels([f"{tick:g}" for tick in ticks if tick <= right])
    axes.set_xlabel("seconds (linear below 0.1 s, logarithmic above)")
    axes.set_ylabel("share of brain calls or intervals")
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
