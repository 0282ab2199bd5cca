"""Quantiles that say how far they can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Below this many samples a 99th percentile is the maximum or close to it.
MIN_COUNT_FOR_P99 = 100


@dataclass(frozen=True)
class Summary:
    """Quantiles in the unit of the samples, by linear interpolation (numpy's default).

    All are None without samples.
    """

    count: int
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    total: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Summary:
        finite = np.asarray(samples, dtype=np.float64)
        finite = finite[np.isfinite(finite)]
        if finite.size == 0:
            return cls(0, None, None, None, None, 0.0)
        p50, p90, p99 = np.quantile(finite, (0.5, 0.9, 0.99))
        return cls(
            count=int(finite.size),
            p50=float(p50),
            p90=float(p90),
            p99=float(p99),
            max=float(finite.max()),
            total=float(finite.sum()),
        )

    @property
    def p99_is_thin(self) -> bool:
        """True if there are too few samples for the 99th percentile to mean much."""
        return 0 < self.count < MIN_COUNT_FOR_P99
