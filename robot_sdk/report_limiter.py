"""Keeps a fault that repeats from filling the log."""

from __future__ import annotations

#: Shortest time between two lines about the same fault.
REPORT_INTERVAL_S = 10.0


class ReportLimiter:
    """Says when something that keeps happening is worth a line, and how often it has happened.

    The first time at once, then at most once per `interval_s` with the count since the last line.
    For one thread.
    """

    def __init__(self, interval_s: float = REPORT_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._pending = 0
        self._reported_s: float | None = None

    def add(self, now_s: float, count: int = 1) -> int:
        """It happened `count` times more. Returns the count to report now, 0 to keep quiet."""
        self._pending += count
        if self._reported_s is not None and now_s - self._reported_s < self._interval_s:
            return 0
        reported, self._pending = self._pending, 0
        if reported:
            self._reported_s = now_s
        return reported
