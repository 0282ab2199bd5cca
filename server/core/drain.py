"""Whether the server is on its way out, and until when running episodes may go on."""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.errors import DrainingError


@dataclass(frozen=True)
class Drain:
    """A drain in progress. `deadline_at_s` is on the server's monotonic clock."""

    started_s: float
    deadline_at_s: float
    reason: str

    def remaining_s(self, now_s: float) -> float:
        """Seconds that running episodes still have, never below 0."""
        return max(self.deadline_at_s - now_s, 0.0)

    def is_over(self, now_s: float, num_active: int) -> bool:
        """Nothing left to wait for: every episode has ended, or the deadline has passed."""
        return num_active == 0 or now_s >= self.deadline_at_s

    def refusal(self, now_s: float) -> DrainingError:
        """The error for a robot that asks for admission now. A restarted server may take it."""
        return DrainingError(
            f"the server is draining ({self.reason}) and takes no new episodes",
            hint="try again later or another server",
            retry_after_s=self.remaining_s(now_s) + 1.0,
        )


def begin(now_s: float, deadline_s: float, reason: str, current: Drain | None = None) -> Drain:
    """Start a drain, or shorten the one that runs. A drain is never made longer."""
    deadline_at_s = now_s + max(deadline_s, 0.0)
    if current is None:
        return Drain(now_s, deadline_at_s, reason)
    return Drain(current.started_s, min(current.deadline_at_s, deadline_at_s), reason)
