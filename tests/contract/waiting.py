"""Waiting for what another thread will do."""

from __future__ import annotations

import time


def eventually(condition, timeout_s: float = 5.0, what: str = "the condition"):
    """The condition's first true value; fails the test if it does not come true in time."""
    end_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end_s:
            raise AssertionError(f"{what} did not come true within {timeout_s:g} s")
        time.sleep(0.005)
