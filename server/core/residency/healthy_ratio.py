"""How many prompt tokens are computed for a generated one while nothing is being lost."""

from __future__ import annotations

from server.core.residency.window import WindowSums

#: A window this healthy may teach the baseline. Between this and the alert's 0.80 nothing is
#: learned, so that a fleet that slowly tips over does not drag its own yardstick along.
HEALTHY_HIT = 0.95
#: Turns with a prefix that a window needs for that.
_MIN_COUNTED = 20
#: Weight of the newest window: half of the baseline is younger than about three windows.
_NEWEST = 0.2


class HealthyRatio:
    """A slow mean over healthy windows that do not overlap; thrashing ones leave no mark."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._next_s: float | None = None
        self.baseline: float | None = None

    def look(self, sums: WindowSums, now_s: float) -> None:
        """Learn from the present window if it is due and healthy."""
        if self._next_s is None:
            self._next_s = now_s + self._window_s
        if now_s < self._next_s:
            return
        hit, ratio = sums.full_prefix_hit, sums.computed_per_generated
        if hit is None or hit < HEALTHY_HIT or sums.num_counted < _MIN_COUNTED or ratio is None:
            return
        self._next_s = now_s + self._window_s
        if self.baseline is None:
            self.baseline = ratio
        else:
            self.baseline += _NEWEST * (ratio - self.baseline)
