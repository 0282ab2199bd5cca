"""The study's controller, and the reason why it fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.core.admission import (
    ActiveEpisode,
    AimdAdmission,
    AimdSettings,
    FleetView,
    WaitingEpisode,
)
from server.core.residency import EngineGauges, LedgerSnapshot, WindowSums


def view(
    usage: float | None,
    hit: float | None,
    num_waiting: int = 3,
    num_active: int = 0,
    now_s: float = 0,
) -> FleetView:
    window = WindowSums() if hit is None else WindowSums(round(100 * hit), round(100 - 100 * hit))
    return FleetView(
        now_s,
        tuple(ActiveEpisode(f"a{n}", "", "", True, 0.0) for n in range(num_active)),
        tuple(WaitingEpisode(f"w{n}", "", "", True, 0.0) for n in range(num_waiting)),
        LedgerSnapshot(window=window),
        EngineGauges(kv_cache_usage=usage),
    )


def test_the_cap_grows_by_one_while_somebody_waits_and_usage_is_not_high() -> None:
    policy = AimdAdmission(settings=AimdSettings(initial_cap=4))
    policy.control(view(usage=0.5, hit=1.0))
    assert policy.cap == 5

    policy.control(view(usage=0.5, hit=1.0, num_waiting=0))

    assert policy.cap == 5


def test_the_cap_is_halved_only_if_usage_is_high_and_hits_are_low() -> None:
    policy = AimdAdmission(settings=AimdSettings(initial_cap=16))
    policy.control(view(usage=0.9, hit=0.9))
    policy.control(view(usage=0.9, hit=None))
    assert policy.cap == 16

    policy.control(view(usage=0.9, hit=0.5))

    assert policy.cap == 8
    assert policy.records[-1].action == "lower"


def test_unknown_usage_is_no_ground_for_a_change() -> None:
    policy = AimdAdmission(settings=AimdSettings(initial_cap=4))
    policy.control(view(usage=None, hit=0.1))

    assert policy.cap == 4


def test_a_fleet_that_thrashes_at_low_usage_is_let_grow_and_never_cut() -> None:
    """The study: 80 controls, no decrease, a cap of 27 in the midst of the collapse.

    Its usage gauge counts running requests. While thrashing most of them wait or prefill, so it
    reads low just when the working set no longer fits.
    """
    policy = AimdAdmission(ceiling=27, settings=AimdSettings(initial_cap=16))
    for number in range(80):
        thrashes = number >= 8
        policy.control(
            view(
                usage=0.35 if thrashes else 0.6,
                hit=0.47 if thrashes else 1.0,
                num_waiting=5,
                now_s=30.0 * number,
            )
        )

    assert policy.num_lowered == 0
    assert policy.cap == 27
    assert len(policy.records) == policy.num_controls == 80
    raised_while_thrashing = [
        record
        for record in policy.records
        if record.full_prefix_hit == 0.47 and record.cap_after > record.cap_before
    ]
    assert raised_while_thrashing
    assert "80 controls" in policy.report(view(0.3, 0.5)).detail
    assert "0 lowered" in policy.report(view(0.3, 0.5)).detail


def test_a_lower_cap_ends_nobody_and_counts_for_the_next_in_line() -> None:
    policy = AimdAdmission(settings=AimdSettings(initial_cap=8))
    policy.control(view(usage=0.9, hit=0.5, num_active=8))

    decision = policy.decide(view(usage=0.9, hit=0.5, num_active=8))

    assert decision.num_admit == 0
    assert decision.reason == "AIMD cap 4: 8 episodes inside"


def test_the_operator_s_cap_is_a_ceiling() -> None:
    policy = AimdAdmission(settings=AimdSettings(initial_cap=10))
    policy.set_cap(6)
    assert policy.cap == 6

    policy.control(view(usage=0.1, hit=1.0))
    assert policy.cap == 6

    policy.set_cap(None)
    policy.control(view(usage=0.1, hit=1.0))
    assert policy.cap == 7


@given(
    st.integers(0, 30),
    st.lists(
        st.tuples(st.none() | st.floats(0, 1), st.none() | st.floats(0, 1), st.integers(0, 3)),
        max_size=60,
    ),
)
def test_the_cap_stays_within_its_bounds(
    ceiling: int, seen: list[tuple[float | None, float | None, int]]
) -> None:
    policy = AimdAdmission(ceiling)
    for usage, hit, num_waiting in seen:
        policy.control(view(usage, hit, num_waiting))

        assert min(1, ceiling) <= policy.cap <= ceiling
        assert policy.decide(view(None, None, 40)).num_admit <= ceiling
