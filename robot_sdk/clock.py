"""The only place that reads a clock or sleeps.

Everything else takes `now_s` or a `Clock`. `MonotonicClock` is real time; `VirtualClock` is a
clock for tests and simulations that jumps instead of waiting. Virtual time stops at the transport
seam: it must never drive gRPC, whose own deadlines run on real time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A source of monotonic time, in seconds, and a way to wait for it."""

    def now_s(self) -> float:
        """Seconds since an arbitrary fixed moment. Never goes back."""

    def sleep_until(self, deadline_s: float) -> None:
        """Return once `now_s() >= deadline_s`; at once if it already is."""

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        """Wait on a held condition for at most `timeout_s` (None: without limit).

        Returns False if the time ran out, like `threading.Condition.wait`.
        """


class MonotonicClock:
    """Real time from `time.monotonic`, which no wall-clock step can move."""

    def now_s(self) -> float:
        return time.monotonic()

    def sleep_until(self, deadline_s: float) -> None:
        while True:
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                return
            time.sleep(remaining_s)

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        return condition.wait(timeout_s)


class VirtualClock:
    """Time that moves only when told to, or when somebody sleeps.

    `sleep_until` jumps to the deadline, so a loop that sleeps runs as fast as the machine allows
    and its times may be compared exactly. Thread-safe, but meant for one sleeping thread.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._lock = threading.Lock()

    def now_s(self) -> float:
        with self._lock:
            return self._now_s

    def advance(self, duration_s: float) -> None:
        """Move time forward by `duration_s` seconds (>= 0)."""
        if duration_s < 0:
            raise ValueError(f"duration_s is {duration_s}; time cannot go back, pass a value >= 0")
        with self._lock:
            self._now_s += duration_s

    def sleep_until(self, deadline_s: float) -> None:
        with self._lock:
            self._now_s = max(self._now_s, deadline_s)

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        """Jump over the timeout. A virtual wait without limit would never end, so it is refused."""
        if timeout_s is None:
            raise ValueError("VirtualClock.wait needs a timeout_s; nothing else would end the wait")
        self.advance(timeout_s)
        return False


SYSTEM_CLOCK: Clock = MonotonicClock()


async def pause(duration_s: float) -> None:
    """Let the running event loop go on with other things for `duration_s` seconds of real time."""
    await asyncio.sleep(duration_s)


def to_ns(seconds: float) -> int:
    """Seconds of some clock as integer nanoseconds of the same clock, for the wire."""
    return round(seconds * 1e9)


def wall_unix_ns() -> int:
    """Unix time in nanoseconds. For people and for joining traces; never for durations."""
    return time.time_ns()
