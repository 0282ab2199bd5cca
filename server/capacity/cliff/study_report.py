"""The study's cliff and ours side by side: text and JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from server.capacity.cliff import published
from server.capacity.cliff.protocol import WARM_UPS
from server.capacity.cliff.reasons import reasons
from server.capacity.cliff.variants import STUDY_STEP_TOKENS, Variant

FORMAT = "robot-cliff-study/1"


def render(variants: Sequence[Variant], pools_blocks: Sequence[int], wall_s: float) -> str:
    """The tables for a person."""
    parts = ["Most sessions that keep every prefix", *_cliffs(variants, pools_blocks)]
    side_by_side = [variant for variant in variants if variant.step_tokens == STUDY_STEP_TOKENS]
    parts += ["", "The study's points and ours (sessions that kept their whole prefix)"]
    parts += _points(side_by_side)
    parts += ["", "Why they differ"]
    for reason in reasons(variants):
        parts += [textwrap.fill(reason, 98, initial_indent="- ", subsequent_indent="  ")]
    parts += ["", f"{sum(len(variant.outcomes) for variant in variants)} runs in {wall_s:.0f} s"]
    return "\n".join(parts)


def to_json(variants: Sequence[Variant], wall_s: float) -> dict[str, Any]:
    """The content of cliff-study.json."""
    rows = [
        {
            "row": point.row,
            "quantity": "full-prefix survival",
            "unit": "share of sessions",
            "study": point.survival,
            "ours": outcome.survival,
            "variant": variant.name,
        }
        for point in published.POINTS
        for variant in variants
        if (outcome := variant.at(point.pool_blocks, point.warm_up, point.num_sessions))
    ]
    return {
        "format": FORMAT,
        "wall_s": round(wall_s, 1),
        "rows": rows,
        "reasons": list(reasons(variants)),
        "variants": [
            {
                "name": variant.name,
                "vllm": variant.version,
                "retention_tokens": variant.retention_tokens,
                "step_tokens": variant.step_tokens,
                "outcomes": [outcome.to_json() for outcome in variant.outcomes],
            }
            for variant in variants
        ],
    }


def _cliffs(variants: Sequence[Variant], pools_blocks: Sequence[int]) -> list[str]:
    headings = [f"{pool} {warm_up}" for pool in pools_blocks for warm_up in WARM_UPS]
    rows = [
        (
            variant.name,
            [
                _most(variant.most_kept(pool, warm_up))
                for pool in pools_blocks
                for warm_up in WARM_UPS
            ],
        )
        for variant in variants
    ]
    return _table("", headings, rows)


def _points(variants: Sequence[Variant]) -> list[str]:
    rows = []
    for point in published.POINTS:
        outcomes = [
            variant.at(point.pool_blocks, point.warm_up, point.num_sessions) for variant in variants
        ]
        if not any(outcomes):
            continue
        cells = ["all" if point.survival == 1.0 else "none"]
        for outcome in outcomes:
            if outcome is None:
                cells.append("-")
            else:
                differs = "" if outcome.survival == point.survival else " *"
                cells.append(f"{outcome.kept}/{point.num_sessions}{differs}")
        rows.append((f"{point.pool_blocks} blocks, {point.warm_up}, N={point.num_sessions}", cells))
    short = [variant.name.split(", steps")[0] for variant in variants]
    return [*_table("", ["study", *short], rows), "  * differs from the study"]


def _table(
    corner: str, headings: Sequence[str], rows: Sequence[tuple[str, list[str]]]
) -> list[str]:
    first = max([len(corner), *(len(name) for name, _ in rows)])
    widths = [
        max([len(heading), *(len(cells[index]) for _, cells in rows)])
        for index, heading in enumerate(headings)
    ]
    lines = [(corner, list(headings)), *rows]
    return [
        "  "
        + "  ".join(
            [
                f"{name:<{first}}",
                *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)),
            ]
        )
        for name, cells in lines
    ]


def _most(sessions: int | None) -> str:
    return "fewer" if sessions is None else str(sessions)
