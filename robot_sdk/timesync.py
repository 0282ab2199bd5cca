"""How far the server's monotonic clock is from ours, and how wrong that can be.

Four time stamps per exchange, as in NTP (RFC 5905, section 8): sent and received here, received
and sent there. Half the time on the network bounds the error, whatever the network does, because
neither direction can have taken less than nothing. Only monotonic clocks take part, so a step of
either wall clock changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Two clocks of ordinary quartz drift apart by at most this much per second of age.
MAX_DRIFT = 100e-6


@dataclass(frozen=True)
class ClockExchange:
    """One round. Seconds; `robot_*` on this process's monotonic clock, `server_*` on the server's.

    `server_wall_unix_ns` is for people and for joining traces; 0 when the round did not carry it.
    """

    robot_sent_s: float
    server_received_s: float
    server_sent_s: float
    robot_received_s: float
    server_boot_id: str = ""
    server_wall_unix_ns: int = 0


@dataclass(frozen=True)
class ClockOffset:
    """Server clock minus robot clock.

    Attributes:
        offset_s: Add it to a robot time to get the server time of the same moment.
        bound_s: The true offset lies within offset_s ± bound_s.
        measured_s: When it was measured, robot's clock.
    """

    offset_s: float
    bound_s: float
    measured_s: float

    def to_server_s(self, robot_s: float) -> float:
        """Robot time as server time."""
        return robot_s + self.offset_s

    def to_robot_s(self, server_s: float) -> float:
        """Server time as robot time."""
        return server_s - self.offset_s

    def aged(self, now_s: float) -> ClockOffset:
        """The same offset with the bound it has by now, grown by the largest drift."""
        age_s = max(0.0, now_s - self.measured_s)
        return ClockOffset(self.offset_s, self.bound_s + age_s * MAX_DRIFT, self.measured_s)


def offset_of(exchange: ClockExchange) -> ClockOffset:
    """Offset and bound of one round."""
    outward_s = exchange.server_received_s - exchange.robot_sent_s
    inward_s = exchange.server_sent_s - exchange.robot_received_s
    on_network_s = outward_s - inward_s
    return ClockOffset(
        offset_s=(outward_s + inward_s) / 2,
        bound_s=max(0.0, on_network_s / 2),
        measured_s=exchange.robot_received_s,
    )


class ClockFilter:
    """Keeps the best offset seen so far of one server process. Not thread-safe.

    A measured bound grows with its age, so an old good round gives way to a new fair one. A server
    that restarts has another clock: what was known of the earlier one is forgotten.
    """

    def __init__(self) -> None:
        self._best: ClockOffset | None = None
        self._boot_id = ""

    def add(self, exchange: ClockExchange) -> None:
        """Take in one exchange."""
        if exchange.server_boot_id != self._boot_id:
            self._best = None
            self._boot_id = exchange.server_boot_id
        new = offset_of(exchange)
        if self._best is None or new.bound_s <= self._best.aged(new.measured_s).bound_s:
            self._best = new

    def offset(self, now_s: float) -> ClockOffset | None:
        """Best offset known at `now_s`, its bound aged; None before the first exchange."""
        return None if self._best is None else self._best.aged(now_s)
