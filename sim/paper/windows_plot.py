"""Runs over time in windows, as the study's figure 9 draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from sim.fleet.replay.result import ReplayResult, Window
from sim.paper.plot import pyplot

#: Of an axis over what it shows, so that the highest line does not lie on the frame.
_HEAD_ROOM = 1.06
Panel = tuple[str, Callable[[Window], "float | None"]]

#: The study's three, per minute.
STUDY_PANELS: tuple[Panel, ...] = (
    ("full-prefix hit", lambda window: window.hit),
    (
        "computed prompt tokens / min [M]",
        lambda window: per_min(window, window.computed_prompt_tokens) / 1e6,
    ),
    (
        "generated tokens / min [k]",
        lambda window: per_min(window, window.generated_tokens) / 1e3,
    ),
)
#: Who is inside, and what the engine's own gauge says of it.
INSIDE_PANELS: tuple[Panel, ...] = (
    ("episodes inside", lambda window: window.num_active),
    ("KV cache in use (running turns)", lambda window: window.kv_cache_usage),
)


def per_min(window: Window, count: float) -> float:
    """Of a window that may be cut short."""
    return 60.0 * count / (window.end_s - window.start_s)


def draw_windows(
    groups: Mapping[str, Sequence[ReplayResult]],
    path: Path,
    panels: Sequence[Panel] = STUDY_PANELS,
    title: str = "",
    marks: Mapping[str, float] | None = None,
) -> None:
    """One line per run, one colour per group, one panel per quantity.

    Args:
        groups: Runs by what the legend calls them.
        path: Where the picture goes.
        panels: What is drawn.
        title: Above all panels.
        marks: Moments [s] by what they are, drawn as vertical lines.
    """
    plt = pyplot()
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(9, 2.4 * len(panels)), sharex=True, layout="constrained"
    )
    for axis, (label, value_of) in zip(_listed(axes), panels, strict=True):
        highest = 0.0
        for color, (name, runs) in enumerate(groups.items()):
            for index, run in enumerate(runs):
                ends_min = [window.end_s / 60 for window in run.windows]
                values = [_or_nan(value_of(window)) for window in run.windows]
                highest = max([highest, *(value for value in values if not isnan(value))])
                axis.plot(
                    ends_min,
                    values,
                    color=f"C{color}",
                    alpha=1.0 if len(runs) == 1 else 0.45,
                    linewidth=1.2,
                    marker=".",
                    label=name if index == 0 else None,
                )
        for when_s in (marks or {}).values():
            axis.axvline(when_s / 60, color="grey", linestyle=":")
        axis.set_ylabel(label, fontsize=9)
        axis.grid(alpha=0.3)
        axis.set_ylim(0.0, _HEAD_ROOM * highest or 1.0)
    _listed(axes)[0].legend(fontsize=8)
    for name, when_s in (marks or {}).items():
        _listed(axes)[0].annotate(name, (when_s / 60, 0.05), fontsize=8, rotation=90)
    _listed(axes)[-1].set_xlabel("end of the 120 s window [minutes]")
    if title:
        figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=120, format="png")
    plt.close(figure)


def _listed(axes: Any) -> list[Any]:
    return list(axes.flat) if hasattr(axes, "flat") else [axes]


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)
