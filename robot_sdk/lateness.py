"""How late ticks begin, in bounded memory."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

_FIRST_EDGE_S = 1e-5
_EDGES_PER_DECADE = 20
_NUM_DECADES = 6


@dataclass(frozen=True)
class LatenessStats:
    """Seconds from the deadline of the tick that was due to the beginning of the one that was run.

    They are the same tick unless some were skipped. None: no tick so far.

    Quantiles are upper edges of histogram bins, so at most 12% too high and never too low; the
    maximum is exact.
    """

    num_ticks: int = 0
    p50_s: float | None = None
    p99_s: float | None = None
    p999_s: float | None = None
    max_s: float | None = None


class LatenessHistogram:
    """Counts in fixed bins: up to 10 µs, then 20 bins a decade up to 10 s, then the rest."""

    def __init__(self) -> None:
        self._edges_s = [
            _FIRST_EDGE_S * 10 ** (i / _EDGES_PER_DECADE)
            for i in range(_EDGES_PER_DECADE * _NUM_DECADES + 1)
        ]
        self._counts = [0] * (len(self._edges_s) + 1)
        self._num_ticks = 0
        self._max_s = 0.0

    def add(self, lateness_s: float) -> None:
        """Count one tick."""
        self._counts[bisect.bisect_left(self._edges_s, lateness_s)] += 1
        self._num_ticks += 1
        self._max_s = max(self._max_s, lateness_s)

    def stats(self) -> LatenessStats:
        """The figures so far."""
        if not self._num_ticks:
            return LatenessStats()
        p50_s, p99_s, p999_s = self._quantiles_s(0.5, 0.99, 0.999)
        return LatenessStats(self._num_ticks, p50_s, p99_s, p999_s, self._max_s)

    def _quantiles_s(self, *quantiles: float) -> list[float]:
        """Nearest-rank quantiles, in ascending order, in one pass over the bins."""
        ranks = [math.ceil(quantile * self._num_ticks) for quantile in quantiles]
        values: list[float] = []
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            while len(values) < len(ranks) and seen >= ranks[len(values)]:
                edge_s = self._edges_s[index] if index < len(self._edges_s) else math.inf
                values.append(min(edge_s, self._max_s))
            if len(values) == len(ranks):
                break
        return values
