from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.core.admission import (
    ActiveEpisode,
    FleetView,
    StaticCapAdmission,
    UnlimitedAdmission,
    WaitingEpisode,
)
from server.core.admission.static_cap import StaticCapSettings
from server.core.residency import LedgerSnapshot


def view(num_active: int, num_waiting: int) -> FleetView:
    return FleetView(
        0.0,
        tuple(ActiveEpisode(f"a{i}", "", "", True, 0.0) for i in range(num_active)),
        tuple(WaitingEpisode(f"w{i}", "", "", True, 0.0) for i in range(num_waiting)),
    )


def test_unlimited_admits_everybody() -> None:
    assert UnlimitedAdmission().decide(view(500, 7)).num_admit == 7


@given(st.integers(0, 20), st.integers(0, 30), st.integers(0, 30))
def test_a_static_cap_fills_free_slots_and_no_more(cap: int, active: int, waiting: int) -> None:
    num_admit = StaticCapAdmission(cap).decide(view(active, waiting)).num_admit

    assert num_admit == min(waiting, max(cap - active, 0))


def test_a_full_house_says_why() -> None:
    decision = StaticCapAdmission(2).decide(view(2, 1))

    assert decision.reason == "static cap 2: 2 episodes inside"
    assert StaticCapAdmission(1).decide(view(1, 1)).reason == "static cap 1: 1 episode inside"


def test_a_cap_may_be_changed_but_not_negative() -> None:
    admission = StaticCapAdmission(1)
    admission.set_cap(None)

    assert admission.decide(view(9, 9)).num_admit == 9
    with pytest.raises(InvalidArgumentError, match="cap"):
        admission.set_cap(-1)


def test_a_policy_without_a_cap_refuses_one_and_names_those_that_have_one() -> None:
    with pytest.raises(InvalidArgumentError, match="static-cap, aimd"):
        UnlimitedAdmission().set_cap(3)


def test_prefixes_are_kept_warm_only_where_it_was_asked_for() -> None:
    ledger = LedgerSnapshot(pool_blocks=1000, measured_pool_blocks=900, block_tokens=16)

    assert StaticCapAdmission(2).refresh_limit_blocks(ledger) is None
    warm = StaticCapAdmission(2, StaticCapSettings(refresh=True))
    assert warm.refresh_limit_blocks(ledger) == int(0.95 * int(0.85 * 900))
