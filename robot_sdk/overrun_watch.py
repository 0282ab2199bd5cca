"""Tells when a robot or a source is too slow for the control rate."""

from __future__ import annotations

from robot_sdk.report_limiter import ReportLimiter


class OverrunWatch:
    """Turns a counter of skipped ticks into an occasional sentence. For one thread."""

    def __init__(self, control_hz: float) -> None:
        self._control_hz = control_hz
        self._limiter = ReportLimiter()
        self._seen = 0

    def note(self, overrun_ticks: int, now_s: float) -> str:
        """After a tick: what to say now, empty for nothing.

        Args:
            overrun_ticks: Ticks skipped since the loop was made.
            now_s: Any monotonic clock.
        """
        skipped = self._limiter.add(now_s, overrun_ticks - self._seen)
        self._seen = overrun_ticks
        if not skipped:
            return ""
        return (
            f"the control loop has skipped {skipped} ticks since the last such line: act(), "
            "hold(), observe() or the action source took longer than the period of "
            f"{1e3 / self._control_hz:g} ms"
        )

    def excuse(self, overrun_ticks: int) -> None:
        """Skipped because of a call between ticks, which may take its time."""
        self._seen = overrun_ticks
