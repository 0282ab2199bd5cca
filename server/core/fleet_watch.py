"""The regular look at the fleet: alerts, and the policy's own control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from server.core.admission import AdmissionPolicy, AdmissionReport, FleetView
from server.core.residency import (
    SILENT_ENGINE,
    AlertBoard,
    EngineGauges,
    LedgerSnapshot,
    StandingAlert,
    find_alerts,
)

#: Alerts and the report for people are at most this old.
_INTERVAL_S = 1.0


@dataclass(frozen=True)
class FleetReport:
    """What was seen at the last look. May be read from another thread: it never changes."""

    snapshot: LedgerSnapshot = field(default_factory=LedgerSnapshot)
    alerts: tuple[StandingAlert, ...] = ()
    admission: AdmissionReport = field(default_factory=AdmissionReport)
    cap: int | None = None
    engine: EngineGauges = SILENT_ENGINE


class FleetWatch:
    """Looks when it is due. A view is built only then, since it costs the fleet's size."""

    def __init__(self, policy: AdmissionPolicy) -> None:
        self._policy = policy
        self._board = AlertBoard()
        self._next_look_s: float | None = None
        self._next_control_s: float | None = None
        self.report = FleetReport(cap=policy.cap)

    def control(self, now_s: float, view: Callable[[], FleetView]) -> None:
        """Let the policy look, if it is due. What it changes counts for who comes in next."""
        interval_s = self._policy.control_interval_s
        if interval_s is None:
            return
        if self._next_control_s is None:
            self._next_control_s = now_s + interval_s
        elif now_s >= self._next_control_s:
            self._next_control_s = now_s + interval_s
            self._policy.control(view())

    def look_if_due(self, now_s: float, view: Callable[[], FleetView]) -> None:
        """Look for alerts, if it is due."""
        if self._next_look_s is None or now_s >= self._next_look_s:
            self._next_look_s = now_s + _INTERVAL_S
            self.look(view())

    def look(self, view: FleetView) -> FleetReport:
        """Look now, whether it is due or not."""
        self._board.update(find_alerts(view.ledger, view.engine), view.now_s)
        self.report = FleetReport(
            view.ledger,
            self._board.standing,
            self._policy.report(view),
            self._policy.cap,
            view.engine,
        )
        return self.report
