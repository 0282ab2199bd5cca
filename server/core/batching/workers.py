"""Which workers there are, and when each is expected to be free."""

from __future__ import annotations


class WorkerBook:
    """Workers of one policy.

    Args:
        num_workers: How many there should be; counted on until they have reported.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._free_at_s: dict[int, float] = {}

    def ready(self, worker: int, now_s: float) -> None:
        """It can take a batch now."""
        self._free_at_s[worker] = now_s
        self.num_workers = max(self.num_workers, len(self._free_at_s))

    def started(self, worker: int, free_at_s: float) -> None:
        """It has a batch, and will be free at about that time."""
        self._free_at_s[worker] = free_at_s

    def lost(self, worker: int) -> None:
        """It is gone."""
        self._free_at_s.pop(worker, None)

    def others_free_at_s(self, worker: int, now_s: float) -> list[float]:
        """When each of the other workers is expected to be free: now, or later."""
        return [max(now_s, at_s) for other, at_s in self._free_at_s.items() if other != worker]
