"""Which conversations are still in the engine's prefix cache, seen turn by turn from outside."""

from server.core.residency.alerts import (
    ALERT_NAMES,
    MIN_COUNTED,
    QUEUEING_THRASH,
    WORKING_SET_FORECAST,
    WORKING_SET_THRASH,
    AlertBoard,
    AlertFinding,
    StandingAlert,
    find_alerts,
)
from server.core.residency.boundary import full_prefix_boundary, is_full_prefix_hit
from server.core.residency.capacity import PRIOR_SHARE, CapacityEstimate
from server.core.residency.course import HORIZON_TURNS, Course, FloatArray
from server.core.residency.engine_gauges import SILENT_ENGINE, EngineGauges
from server.core.residency.footprint import PrefixOutcome, TurnFootprint
from server.core.residency.forecast import PEAK_SHARE, FamilyForecast, ForecastTable
from server.core.residency.healthy_ratio import HEALTHY_HIT
from server.core.residency.ledger import CountedTurn, PrefixLedger
from server.core.residency.refresh import RefreshedPrefix
from server.core.residency.room import refresh_limit_blocks, room_blocks
from server.core.residency.snapshot import LedgerSnapshot, LedgerTotals
from server.core.residency.window import WINDOW_S, WindowSums
from server.core.residency.working_set import LiveContext, blocks_of

__all__ = [
    "ALERT_NAMES",
    "HEALTHY_HIT",
    "HORIZON_TURNS",
    "MIN_COUNTED",
    "PEAK_SHARE",
    "PRIOR_SHARE",
    "QUEUEING_THRASH",
    "SILENT_ENGINE",
    "WINDOW_S",
    "WORKING_SET_FORECAST",
    "WORKING_SET_THRASH",
    "AlertBoard",
    "AlertFinding",
    "CapacityEstimate",
    "CountedTurn",
    "Course",
    "EngineGauges",
    "FamilyForecast",
    "FloatArray",
    "ForecastTable",
    "LedgerSnapshot",
    "LedgerTotals",
    "LiveContext",
    "PrefixLedger",
    "PrefixOutcome",
    "RefreshedPrefix",
    "StandingAlert",
    "TurnFootprint",
    "WindowSums",
    "blocks_of",
    "find_alerts",
    "full_prefix_boundary",
    "is_full_prefix_hit",
    "refresh_limit_blocks",
    "room_blocks",
]
