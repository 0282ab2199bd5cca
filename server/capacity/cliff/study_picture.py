"""Survival over sessions, by pool and warm-up, one curve for each engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robot_sdk.trace.timeline import new_figure
from server.capacity.cliff import published
from server.capacity.cliff.protocol import WARM_UPS
from server.capacity.cliff.variants import STUDY_STEP_TOKENS, Variant

_COLOURS = ("#3b6bb5", "#3f9a6b", "#d08a1d", "#8e5ea2")
#: Curves that lie on each other stay visible.
_OFFSET = 0.012


def draw(variants: Sequence[Variant], pools_blocks: Sequence[int], path: Path) -> None:
    """Write a PNG.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    figure = new_figure(13.0, 4.2 * len(pools_blocks))
    grid = figure.subplots(len(pools_blocks), len(WARM_UPS), squeeze=False, sharex=True)
    shown = [variant for variant in variants if variant.step_tokens == STUDY_STEP_TOKENS]
    for row, pool_blocks in enumerate(pools_blocks):
        for column, warm_up in enumerate(WARM_UPS):
            axes = grid[row][column]
            for index, variant in enumerate(shown):
                curve = variant.curve(pool_blocks, warm_up)
                axes.plot(
                    [outcome.cell.num_sessions for outcome in curve],
                    [outcome.survival - index * _OFFSET for outcome in curve],
                    marker=".",
                    color=_COLOURS[index % len(_COLOURS)],
                    linestyle="--" if variant.is_study_version else "-",
                    label=variant.name.split(", steps")[0],
                )
            points = [
                point
                for point in published.POINTS
                if point.pool_blocks == pool_blocks and point.warm_up == warm_up
            ]
            axes.plot(
                [point.num_sessions for point in points],
                [point.survival for point in points],
                linestyle="none",
                marker="o",
                markersize=10,
                markerfacecolor="none",
                markeredgecolor="#c0392b",
                label="the study",
            )
            axes.set_title(f"{pool_blocks:,} blocks, {warm_up} warm-up")
            axes.set_xlabel("sessions of 100,000 tokens")
            axes.set_ylabel("share that keeps its whole prefix")
            axes.set_ylim(-0.1, 1.08)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_yticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
            axes.grid(alpha=0.3)
    # Above the panels, since a curve may pass through any corner of one.
    figure.legend(
        *grid[0][0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        fontsize="small",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    note = f"Steps of {STUDY_STEP_TOKENS:,} tokens where a curve has steps."
    if len(shown) > 1:
        note += f" Curves are drawn {_OFFSET} below each other so that none hides another."
    figure.supxlabel(note, fontsize="small")
    figure.savefig(path)
