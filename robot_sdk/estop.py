"""The emergency stop as a latch. A stop in software: it is not safety-rated."""

from __future__ import annotations

import threading

from robot_sdk.errors import EstopError


class EstopLatch:
    """Set from any thread; stays set until re-armed.

    Each stop begins a new epoch. Work remembers the epoch in which it was accepted and may act only
    in that one, so a stop ends it for good, even if the latch is re-armed before anybody looked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._reason: str | None = None
        self._last_reason = ""

    @property
    def is_set(self) -> bool:
        """Whether nothing may move."""
        return self._reason is not None

    @property
    def epoch(self) -> int:
        """How many times it has been set."""
        return self._epoch

    def set(self, reason: str) -> None:
        """Stop. Never blocks on the robot."""
        with self._lock:
            self._epoch += 1
            self._reason = reason
            self._last_reason = reason

    def rearm(self) -> None:
        """Allow new work. Work from before stays dead."""
        with self._lock:
            self._reason = None

    def enter(self) -> int:
        """The epoch for work that is accepted now.

        Raises:
            EstopError: The latch is set.
        """
        with self._lock:
            if self._reason is not None:
                raise self._error(self._reason)
            return self._epoch

    def error(self) -> EstopError:
        """What ended work of an earlier epoch."""
        return self._error(self._last_reason)

    def _error(self, reason: str) -> EstopError:
        return EstopError(
            f"emergency stop: {reason or 'no reason given'}",
            hint="nothing moves until rearm(); start the work again afterwards",
        )
