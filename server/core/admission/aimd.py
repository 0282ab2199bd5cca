"""The additive-increase, multiplicative-decrease cap that the study tried, and why it fails.

Every 30 s it looks at the engine's KV usage, the prefix hit rate and the queue. It lowers the cap
only if usage is high AND the hit rate low. While a fleet thrashes, most requests wait or prefill,
so the usage gauge (which counts running requests only) stays low: the decrease never comes and the
cap climbs on (in the study: 80 control records, not one decrease, a cap of 27 while thrashing). It
is here as the baseline that others are measured against.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from server.core.admission.interface import (
    AdmissionDecision,
    AdmissionPolicy,
    AdmissionReport,
    FleetView,
    checked_cap,
)
from server.core.admission.static_cap import decide_by_cap

Action = Literal["raise", "hold", "lower"]

_NUM_RECORDS = 1024


@dataclass(frozen=True)
class AimdSettings:
    """The rule's constants. The study gives the interval alone; the others are the usual choices.

    Attributes:
        initial_cap: Where it starts.
        min_cap: It never goes below.
        interval_s: Time between two controls.
        increase: Added to the cap while somebody waits and usage is below `usage_high`.
        decrease: The cap is multiplied by this if usage is at least `usage_high` and the hit rate
            below `hit_low`.
    """

    initial_cap: int = 16
    min_cap: int = 1
    interval_s: float = 30.0
    increase: int = 1
    decrease: float = 0.5
    usage_high: float = 0.8
    hit_low: float = 0.8


@dataclass(frozen=True)
class ControlRecord:
    """What one control saw and did. None: not known then."""

    now_s: float
    kv_cache_usage: float | None
    full_prefix_hit: float | None
    num_waiting: int
    action: Action
    cap_before: int
    cap_after: int


class AimdAdmission(AdmissionPolicy):
    """See the module. A new cap counts for who comes in next; it ends nobody.

    Args:
        ceiling: The cap never goes above; None: no ceiling. An operator's SetCap sets it.
        settings: Constants of the rule.
    """

    name = "aimd"

    def __init__(self, ceiling: int | None = None, settings: AimdSettings | None = None) -> None:
        self._settings = settings or AimdSettings()
        self._ceiling = checked_cap(ceiling)
        self._cap = self._bounded(self._settings.initial_cap)
        self._records: deque[ControlRecord] = deque(maxlen=_NUM_RECORDS)
        self.num_raised = 0
        self.num_lowered = 0
        self.num_controls = 0
        self.control_interval_s = self._settings.interval_s

    @property
    def cap(self) -> int:
        return self._cap

    @property
    def records(self) -> tuple[ControlRecord, ...]:
        """The newest controls, oldest first."""
        return tuple(self._records)

    def set_cap(self, cap: int | None) -> None:
        self._ceiling = checked_cap(cap)
        self._cap = self._bounded(self._cap)

    def decide(self, view: FleetView) -> AdmissionDecision:
        return decide_by_cap(self._cap, view, "AIMD cap")

    def control(self, view: FleetView) -> None:
        usage, hit = view.engine.kv_cache_usage, view.ledger.window.full_prefix_hit
        action = self._action(usage, hit, len(view.waiting))
        before = self._cap
        if action == "lower":
            self._cap = self._bounded(int(before * self._settings.decrease))
            self.num_lowered += 1
        elif action == "raise":
            self._cap = self._bounded(before + self._settings.increase)
            self.num_raised += 1
        self.num_controls += 1
        self._records.append(
            ControlRecord(view.now_s, usage, hit, len(view.waiting), action, before, self._cap)
        )

    def report(self, view: FleetView) -> AdmissionReport:
        ceiling = "none" if self._ceiling is None else str(self._ceiling)
        detail = (
            f"cap {self._cap} (ceiling {ceiling}); {self.num_controls} controls, "
            f"{self.num_raised} raised, {self.num_lowered} lowered"
        )
        if self._records:
            last = self._records[-1]
            detail += (
                f"; last saw KV usage {_shown(last.kv_cache_usage)}, "
                f"hit {_shown(last.full_prefix_hit)}, {last.num_waiting} waiting: {last.action}"
            )
        return AdmissionReport(detail=detail)

    def _action(self, usage: float | None, hit: float | None, num_waiting: int) -> Action:
        if usage is None:
            # An engine that does not tell its usage gives no ground for either.
            return "hold"
        if usage >= self._settings.usage_high:
            return "lower" if hit is not None and hit < self._settings.hit_low else "hold"
        return "raise" if num_waiting > 0 else "hold"

    def _bounded(self, cap: int) -> int:
        cap = max(cap, self._settings.min_cap)
        return cap if self._ceiling is None else min(cap, self._ceiling)


def _shown(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.2f}"
