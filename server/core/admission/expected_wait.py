"""The wait that a place in the queue means."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence


class DurationHistory:
    """How long ended episodes were inside. Keeps the newest `size`."""

    def __init__(self, size: int = 64) -> None:
        self._durations_s: deque[float] = deque(maxlen=size)

    def add(self, duration_s: float) -> None:
        self._durations_s.append(duration_s)

    def mean_s(self) -> float | None:
        """None as long as no episode has ended."""
        if not self._durations_s:
            return None
        return sum(self._durations_s) / len(self._durations_s)


def expected_waits_s(
    ages_s: Sequence[float], mean_duration_s: float | None, cap: int | None, num_waiting: int
) -> list[float | None]:
    """Wait from now of each place in a first-in-first-out queue, seconds.

    Every active episode is taken to last the mean duration in all (one that is older is about to
    end), and each slot that frees up to serve the next in line for the mean duration. None where
    nothing is known: no episode has ended so far, or the policy knows no cap.

    Args:
        ages_s: Time that each active episode has been inside.
        mean_duration_s: Mean time inside of ended episodes.
        cap: Episodes inside at once.
        num_waiting: Length of the queue.
    """
    if mean_duration_s is None or cap is None or cap == 0:
        return [None] * num_waiting
    ends_s = [max(mean_duration_s - age_s, 0.0) for age_s in ages_s]
    # After the cap was lowered, that many episodes must end before the first slot is free.
    num_over = max(len(ends_s) - cap, 0)
    # Free slots beyond one for each in line change nothing, and a cap may be very large.
    num_free = min(max(cap - len(ends_s), 0), num_waiting)
    ends_s = sorted(ends_s)[num_over:] + [0.0] * num_free
    heapq.heapify(ends_s)
    waits_s: list[float | None] = []
    for _ in range(num_waiting):
        free_s = ends_s[0]
        waits_s.append(free_s)
        heapq.heapreplace(ends_s, free_s + mean_duration_s)
    return waits_s
