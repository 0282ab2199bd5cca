"""What the ledger's figures mean for whoever sets the cap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from server.core.residency.engine_gauges import EngineGauges
from server.core.residency.snapshot import LedgerSnapshot

WORKING_SET_THRASH = "working-set-thrash"
QUEUEING_THRASH = "queueing-thrash"
WORKING_SET_FORECAST = "working-set-forecast"
ALERT_NAMES = (WORKING_SET_THRASH, QUEUEING_THRASH, WORKING_SET_FORECAST)

#: The study's three thresholds for its two alerts.
LOW_HIT = 0.80
HIGH_RATIO = 1.5
LOW_USAGE = 0.7
#: Counted turns in the window below which a hit rate is an anecdote.
MIN_COUNTED = 10


@dataclass(frozen=True)
class AlertFinding:
    """An alert that holds by the present figures."""

    name: str
    evidence: str
    advice: str


@dataclass(frozen=True)
class StandingAlert:
    """An alert and since when it has held, on the server's clock."""

    finding: AlertFinding
    since_s: float


def find_alerts(snapshot: LedgerSnapshot, engine: EngineGauges) -> tuple[AlertFinding, ...]:
    """Which alerts hold now.

    The first two look at the same low hit rate and advise differently: prompt work far above what
    is healthy says that contexts push each other out, so fewer of them help; a low use of the pool
    says that requests wait or prefill, so the room that this gauge shows is not room for more. Both
    can hold at once. The third needs no lost prefix: it compares the forecast with the capacity.
    """
    findings: list[AlertFinding] = []
    hit = snapshot.window.full_prefix_hit
    is_low = snapshot.window.hit_is_below(LOW_HIT, MIN_COUNTED)
    if is_low:
        seen = f"full-prefix hit {hit:.2f} of {snapshot.window.num_counted} turns"
        findings += _working_set_thrash(snapshot, seen)
        findings += _queueing_thrash(engine, seen)
    else:
        findings += _forecast_over_capacity(snapshot)
    return tuple(findings)


def _working_set_thrash(snapshot: LedgerSnapshot, seen: str) -> Iterable[AlertFinding]:
    ratio = snapshot.window.computed_per_generated
    baseline, source = snapshot.baseline_computed_per_generated, "in healthy times"
    if baseline is None:
        # A server that came up overloaded has never seen healthy times.
        baseline, source = snapshot.window.least_computed_per_generated, "with nothing lost"
    if ratio is None or baseline is None or ratio <= HIGH_RATIO * baseline:
        return
    yield AlertFinding(
        WORKING_SET_THRASH,
        f"{seen}; {ratio:.0f} prompt tokens computed per token generated, {baseline:.0f} {source}",
        "the episodes' contexts push each other out of the cache: lower K",
    )


def _queueing_thrash(engine: EngineGauges, seen: str) -> Iterable[AlertFinding]:
    usage = engine.kv_cache_usage
    if usage is None or usage >= LOW_USAGE:
        return
    yield AlertFinding(
        QUEUEING_THRASH,
        f"{seen}; KV cache usage only {usage:.2f}",
        "requests wait or prefill, and usage counts running ones only: do not raise K",
    )


def _forecast_over_capacity(snapshot: LedgerSnapshot) -> Iterable[AlertFinding]:
    forecast, capacity = snapshot.forecast_blocks, snapshot.capacity_blocks
    if forecast is None or capacity is None or forecast <= capacity:
        return
    yield AlertFinding(
        WORKING_SET_FORECAST,
        f"the {snapshot.num_live} episodes inside will need {forecast} blocks, {capacity} survive; "
        "no prefix is being lost yet",
        "admit nobody until some have ended, or prefixes will be lost when contexts have grown",
    )


class AlertBoard:
    """Remembers since when each alert has held."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self.standing: tuple[StandingAlert, ...] = ()

    def update(self, findings: Iterable[AlertFinding], now_s: float) -> None:
        """Take in what holds now. An alert that went away starts anew when it comes back."""
        findings = tuple(findings)
        self._since_s = {f.name: self._since_s.get(f.name, now_s) for f in findings}
        self.standing = tuple(StandingAlert(f, self._since_s[f.name]) for f in findings)
