"""When a fleet first thrashes: its first window with a low hit rate."""

from __future__ import annotations

from collections.abc import Iterable

#: Of the study's windows and of its alert.
WINDOW_S = 120.0
LOW_HIT = 0.80


def first_low_hit_s(
    windows: Iterable[tuple[float, float | None]], threshold: float = LOW_HIT
) -> float | None:
    """End of the first window whose hit rate is under the threshold.

    Args:
        windows: Pairs of end [s] and hit rate, in order; None: no turn counted in it, which is not
            low.
        threshold: Exclusive.

    Returns:
        None: none was, so that the time is censored at the end of the run.
    """
    return next((end_s for end_s, hit in windows if hit is not None and hit < threshold), None)
