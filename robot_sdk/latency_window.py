"""How long the policy has taken lately."""

from __future__ import annotations

import math
from collections import deque

from robot_sdk.errors import InvalidArgumentError


class LatencyWindow:
    """A quantile over the last samples, so that one old outlier is forgotten.

    The quantile is the nearest rank: with the default 0.95 the largest sample counts while there
    are fewer than 20, and a single outlier is ignored from then on.
    """

    def __init__(self, size: int = 32, quantile: float = 0.95) -> None:
        if size < 1:
            raise InvalidArgumentError("must be at least 1", field="size", value=size)
        if not 0.0 < quantile <= 1.0:
            raise InvalidArgumentError(
                "must be above 0 and at most 1", field="quantile", value=quantile
            )
        self._samples_s: deque[float] = deque(maxlen=size)
        self._quantile = quantile

    def add(self, latency_s: float) -> None:
        """Take a sample in, in seconds; the oldest one leaves when the window is full."""
        self._samples_s.append(latency_s)

    def value_s(self) -> float | None:
        """The quantile in seconds. None without samples: unknown is not zero."""
        if not self._samples_s:
            return None
        ordered = sorted(self._samples_s)
        rank = math.ceil(self._quantile * len(ordered))
        return ordered[rank - 1]
