"""A fixed number of episodes."""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.plain_text import counted
from server.core.admission.interface import (
    AdmissionDecision,
    AdmissionPolicy,
    FleetView,
    checked_cap,
)
from server.core.residency import LedgerSnapshot, refresh_limit_blocks, room_blocks


@dataclass(frozen=True)
class StaticCapSettings:
    """What may be set besides the cap.

    Attributes:
        refresh: Whether prefixes are kept warm, if the engine can do it.
    """

    refresh: bool = False


class StaticCapAdmission(AdmissionPolicy):
    """At most `cap` episodes inside; None is no cap, 0 lets nobody in."""

    name = "static-cap"

    def __init__(self, cap: int | None, settings: StaticCapSettings | None = None) -> None:
        self._cap = checked_cap(cap)
        self._settings = settings or StaticCapSettings()

    @property
    def cap(self) -> int | None:
        return self._cap

    def set_cap(self, cap: int | None) -> None:
        self._cap = checked_cap(cap)

    def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
        return refresh_limit_blocks(room_blocks(ledger)) if self._settings.refresh else None

    def decide(self, view: FleetView) -> AdmissionDecision:
        return decide_by_cap(self._cap, view, "static cap")


def decide_by_cap(cap: int | None, view: FleetView, words: str) -> AdmissionDecision:
    """Fill the free slots below a cap. `words` name it in the reason."""
    num_waiting, num_active = len(view.waiting), len(view.active)
    if cap is None:
        return AdmissionDecision(num_admit=num_waiting)
    num_admit = min(max(cap - num_active, 0), num_waiting)
    if num_admit == num_waiting:
        return AdmissionDecision(num_admit)
    return AdmissionDecision(
        num_admit, reason=f"{words} {cap}: {counted(num_active + num_admit, 'episode')} inside"
    )
