"""What a batch of a given size is expected to take, from a table and from what was seen lately."""

from __future__ import annotations

import math
from collections import deque

from server.core.batching.interface import BatchLatency
from server.core.batching.latency_table import LatencyTable

#: Batches per size that count, and the share of them that the expectation covers. One batch later
#: than expected starves every robot in it, so it is not the median.
WINDOW = 32
QUANTILE = 0.9
#: First batches of each size on each worker that are not counted: they load, compile and capture.
WARMUPS_PER_SIZE = 1
#: Batches of one size before what was seen replaces what the table says.
ENOUGH = 4


class LatencyLearner:
    """Expected latency by batch size, learned online.

    A size that was seen often enough counts with a recent quantile. Other sizes follow the table,
    scaled by how the sizes that were seen compare with it (this machine may be faster or slower
    than the one that was measured). Without a table they follow the sizes that were seen: linear
    between two of them, proportional to the batch size above the largest, since a batch never takes
    longer than its parts one after the other. A larger batch is never expected to be faster.

    Args:
        table: Prior; None: nothing is known before the first batches.
    """

    def __init__(self, table: LatencyTable | None = None) -> None:
        self._table = table
        self._windows_s: dict[int, deque[float]] = {}
        self._num_seen: dict[tuple[int, int], int] = {}
        self._seen_s: dict[int, float] = {}
        self._scale = 1.0
        self._by_size_s: list[float] = []

    def forget_warmth(self, worker: int) -> None:
        """The worker starts anew: its next batch of each size is slow again."""
        for key in [key for key in self._num_seen if key[0] == worker]:
            del self._num_seen[key]

    def add(self, worker: int, batch_size: int, latency_s: float) -> None:
        """Take in how long a batch took. Values that are no duration are ignored."""
        if not (math.isfinite(latency_s) and latency_s > 0):
            return
        key = (worker, batch_size)
        self._num_seen[key] = self._num_seen.get(key, 0) + 1
        if self._num_seen[key] <= WARMUPS_PER_SIZE:
            return
        window = self._windows_s.setdefault(batch_size, deque(maxlen=WINDOW))
        window.append(latency_s)
        if len(window) >= ENOUGH:
            self._seen_s[batch_size] = _quantile(list(window), QUANTILE)
            self._scale = self._scale_to_table()
            self._by_size_s.clear()

    def expected_s(self, batch_size: int) -> float | None:
        """Seconds that a batch of this size should take. None: nothing is known.

        Raises:
            ValueError: There is a table, and it does not reach this batch size.
        """
        if self._table is None and not self._seen_s:
            return None
        while len(self._by_size_s) < batch_size:
            smaller_s = self._by_size_s[-1] if self._by_size_s else 0.0
            self._by_size_s.append(max(smaller_s, self._estimate_s(len(self._by_size_s) + 1)))
        return self._by_size_s[batch_size - 1]

    def measured(self) -> tuple[BatchLatency, ...]:
        """Expectation for the sizes that were measured, by the table or since the start."""
        sizes = set(self._seen_s)
        if self._table is not None:
            sizes |= {row.batch for row in self._table.rows}
        return tuple(
            BatchLatency(size, latency_s, len(self._windows_s.get(size, ())))
            for size in sorted(sizes)
            if (latency_s := self.expected_s(size)) is not None
        )

    def _estimate_s(self, batch_size: int) -> float:
        """For this size by itself; something is known."""
        if batch_size in self._seen_s:
            return self._seen_s[batch_size]
        if self._table is not None:
            return self._scale * self._table.latency_s(batch_size)
        sizes = sorted(self._seen_s)
        below = [size for size in sizes if size < batch_size]
        above = [size for size in sizes if size > batch_size]
        if not below:
            return self._seen_s[above[0]]
        low = below[-1]
        if not above:
            return self._seen_s[low] * batch_size / low
        high = above[0]
        share = (batch_size - low) / (high - low)
        return self._seen_s[low] + share * (self._seen_s[high] - self._seen_s[low])

    def _scale_to_table(self) -> float:
        if self._table is None:
            return 1.0
        ratios = [
            seen_s / self._table.latency_s(size)
            for size, seen_s in self._seen_s.items()
            if size <= self._table.largest_batch
        ]
        return _quantile(ratios, 0.5) if ratios else 1.0


def _quantile(values: list[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
