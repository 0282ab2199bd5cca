"""Numbers of a row as people read them."""

from __future__ import annotations

import math

from sim.paper.rows import Row, StudyValue

NOTHING = "–"


def number(value: float | None) -> str:
    """Four digits that count; thousands apart."""
    if value is None:
        return NOTHING
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def beside(row: Row) -> str:
    """What ours is set beside: the study's value, or a goal."""
    return f"goal {study(row.study)}" if row.is_goal else study(row.study)


def study(value: StudyValue) -> str:
    """A number, a range, or one open end of it."""
    if not isinstance(value, tuple):
        return number(value)
    low, high = value
    if low is None and high is None:
        return NOTHING
    if high is None:
        return f"≥ {number(low)}"
    if low is None:
        return f"≤ {number(high)}"
    return number(low) if low == high else f"{number(low)} – {number(high)}"


def difference(row: Row) -> str:
    """With its sign: a share of the study's value, or in the row's unit."""
    found = row.difference
    if found is None:
        return NOTHING
    if found == 0.0:
        return "0" if not isinstance(row.study, tuple) else "in range"
    if row.is_absolute:
        if abs(found) >= 10:
            return f"{found:+,.0f}"
        text = f"{found:+.4f}".rstrip("0").rstrip(".")
        return "0" if text in ("+0", "-0") else text
    return f"{100 * found:+.1f}%"


def seeds(row: Row) -> str:
    """Range over the seeds and their number."""
    known = [value for value in row.per_seed if value is not None]
    if not known:
        return NOTHING
    count = (
        f"{len(known)}" if len(known) == len(row.per_seed) else f"{len(known)}/{len(row.per_seed)}"
    )
    return f"{number(min(known))} – {number(max(known))} ({count})"


def allowed(row: Row) -> str:
    """The tolerance."""
    if row.within is None:
        return NOTHING
    if isinstance(row.within, str):
        return "study in seeds' range"
    if row.within == 0:
        return "in range" if isinstance(row.study, tuple) else "equal"
    return f"±{row.within:g}" if row.is_absolute else f"±{100 * row.within:g}%"
