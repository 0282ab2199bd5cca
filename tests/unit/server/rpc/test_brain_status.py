"""What the fleet's status says of the brain's cache."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from server.brain.interface import EngineInfo
from server.core.fleet_watch import FleetReport
from server.core.residency import LedgerSnapshot, LedgerTotals
from server.rpc.brain_status import brain_status
from server.rpc.services import BrainTotals


@pytest.mark.parametrize("can_refresh", [True, False])
def test_refreshes_are_told_of_an_engine_that_can(can_refresh: bool) -> None:
    engine: Any = SimpleNamespace(
        info=EngineInfo("e", "m", can_refresh=can_refresh),
        load=None,
        num_running=0,
        num_waiting=0,
        is_ready=True,
        problem="",
    )
    snapshot = LedgerSnapshot(totals=LedgerTotals(refreshes_found=5, refreshes_lost=0))

    prefix = brain_status(engine, BrainTotals(), FleetReport(snapshot=snapshot)).prefix

    assert prefix.HasField("refreshes_found_total") is can_refresh
    assert prefix.HasField("refreshes_lost_total") is can_refresh
    assert (prefix.refreshes_found_total, prefix.refreshes_lost_total) == (5 * can_refresh, 0)
