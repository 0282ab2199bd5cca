"""Growing pauses between tries."""

from __future__ import annotations

#: First and longest pause between two tries to reach the server. With the channel's own 1 s a
#: robot is back within 5 s of the server.
INITIAL_S = 0.1
MAX_S = 2.0


class Backoff:
    """Pauses of 0.1 s, 0.2 s, ... 2 s; from the start again after a success."""

    def __init__(self) -> None:
        self._next_s = INITIAL_S

    def next_s(self, retry_after_s: float | None = None) -> float:
        """How long to wait after one more failure; the server's own wish counts if it has one."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, MAX_S)
        return pause_s if retry_after_s is None else max(pause_s, retry_after_s)

    def reset(self) -> None:
        """A try succeeded."""
        self._next_s = INITIAL_S
