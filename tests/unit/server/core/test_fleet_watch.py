from __future__ import annotations

from server.core.admission import AdmissionDecision, AdmissionPolicy, FleetView
from server.core.fleet_watch import FleetWatch
from server.core.residency import (
    QUEUEING_THRASH,
    EngineGauges,
    LedgerSnapshot,
    WindowSums,
)

THRASH = FleetView(
    0.0,
    (),
    (),
    LedgerSnapshot(window=WindowSums(num_hits=1, num_misses=99)),
    EngineGauges(kv_cache_usage=0.2),
)


class Clocked(AdmissionPolicy):
    """Notes when it is let control."""

    name = "clocked"
    control_interval_s = 30.0

    def __init__(self) -> None:
        self.controls: list[float] = []

    def decide(self, view: FleetView) -> AdmissionDecision:
        return AdmissionDecision(0)

    def control(self, view: FleetView) -> None:
        self.controls.append(view.now_s)


def at(now_s: float, view: FleetView = THRASH) -> FleetView:
    return FleetView(now_s, view.active, view.waiting, view.ledger, view.engine)


def test_a_policy_controls_at_its_interval_whether_or_not_somebody_waits() -> None:
    policy = Clocked()
    watch = FleetWatch(policy)
    for second in range(100):
        watch.control(float(second), lambda now_s=float(second): at(now_s))  # type: ignore[misc]

    assert policy.controls == [30.0, 60.0, 90.0]


def test_an_alert_keeps_the_time_at_which_it_came_up() -> None:
    watch = FleetWatch(Clocked())
    for second in range(5):
        watch.look_if_due(float(second), lambda now_s=float(second): at(now_s))  # type: ignore[misc]

    (alert,) = watch.report.alerts
    assert (alert.finding.name, alert.since_s) == (QUEUEING_THRASH, 0.0)


def test_between_two_looks_nothing_is_built() -> None:
    watch = FleetWatch(Clocked())
    watch.look_if_due(0.0, lambda: at(0.0))

    def never() -> FleetView:
        raise AssertionError("not due")

    watch.look_if_due(0.9, never)
    watch.control(0.9, never)
