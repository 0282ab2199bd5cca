"""Span times from one clock that cannot be stepped."""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.clock import Clock, to_ns, wall_unix_ns


@dataclass(frozen=True)
class TimeAnchor:
    """One instant on two clocks, taken once per process.

    All span times are taken from the monotonic clock and moved to Unix time by this one pair, so a
    wall clock that is set back in between can neither make a duration negative nor reorder spans of
    a process. Times of two processes differ by the error of their wall clocks at their anchors.

    Attributes:
        monotonic_ns: The process's monotonic clock, in ns.
        unix_ns: Unix time of the same instant, in ns.
    """

    monotonic_ns: int
    unix_ns: int

    @classmethod
    def take(cls, clock: Clock) -> TimeAnchor:
        return cls(monotonic_ns=to_ns(clock.now_s()), unix_ns=wall_unix_ns())

    def to_unix_ns(self, time_s: float) -> int:
        """Unix time in ns of `time_s`, seconds of the monotonic clock."""
        return self.unix_ns + (to_ns(time_s) - self.monotonic_ns)
