from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.brain_status_text import POOL_UNKNOWN
from server.core.admission import (
    ActiveEpisode,
    EndedEpisode,
    FleetView,
    ForecastCapAdmission,
    ForecastCapSettings,
    WaitingEpisode,
)
from server.core.residency import LedgerSnapshot

POOL = LedgerSnapshot(pool_blocks=1000, block_tokens=1000)
#: Lets a test ask once.
AT_ONCE = ForecastCapSettings(refill_share=1.0)


def view(num_inside: int, num_waiting: int, now_s: float = 0.0, **others: Any) -> FleetView:
    return FleetView(
        now_s,
        tuple(ActiveEpisode(f"a{n}", "", "sort", True, 0.0) for n in range(num_inside)),
        tuple(WaitingEpisode(f"w{n}", "", "sort", True, 0.0) for n in range(num_waiting)),
        **{"ledger": POOL, **others},
    )


def ended(
    peak_tokens: int, family: str = "sort", duration_s: float = 100.0, whole: bool = True
) -> EndedEpisode:
    return EndedEpisode("e", "", family, whole, duration_s, 20, peak_tokens)


def test_before_anything_has_ended_the_longest_conversation_counts() -> None:
    policy = ForecastCapAdmission(ForecastCapSettings(first_context_tokens=250_000, refill_share=1))

    assert policy.decide(view(0, 60)).num_admit == 4
    assert policy.cap == 4


def test_the_cap_is_the_pool_over_the_mean_length_at_the_end() -> None:
    policy = ForecastCapAdmission(AT_ONCE)
    for _ in range(5):
        policy.on_end(ended(100_000))

    decision = policy.decide(view(2, 60))

    assert decision.num_admit == 8
    assert decision.reason == "forecast cap 10: 10 episodes inside"


def test_over_commitment_is_a_factor() -> None:
    policy = ForecastCapAdmission(ForecastCapSettings(overcommit=1.5, refill_share=1.0))
    policy.on_end(ended(100_000))

    assert policy.decide(view(0, 60)).num_admit == 15


def test_families_count_by_how_many_end_and_how_long_they_are_inside() -> None:
    policy = ForecastCapAdmission(AT_ONCE)
    for _ in range(200):
        policy.on_end(ended(50_000, "short", duration_s=100.0))
        policy.on_end(ended(200_000, "long", duration_s=300.0))

    # As often, and inside for three times as long: (50,000 + 3 x 200,000) / 4.
    assert policy.decide(view(0, 60)).num_admit == pytest.approx(1_000_000 / 162_500, abs=1)


def test_what_was_cut_off_says_nothing() -> None:
    policy = ForecastCapAdmission(AT_ONCE)
    policy.on_end(ended(100_000))
    policy.on_end(ended(1_000, whole=False))
    policy.on_end(ended(0))

    assert policy.decide(view(0, 60)).num_admit == 10


def test_few_come_in_at_a_time() -> None:
    policy = ForecastCapAdmission()
    for _ in range(5):
        policy.on_end(ended(50_000))

    first, same = policy.decide(view(0, 60, 0.0)), policy.decide(view(2, 60, 4.9))
    later = policy.decide(view(2, 60, 5.0))

    assert (first.num_admit, same.num_admit, later.num_admit) == (2, 0, 2)
    assert first.reason == "forecast cap 20: 2 episodes inside, more come in soon"


def test_without_the_pool_s_size_one_is_inside_and_the_reason_says_what_to_set() -> None:
    decision = ForecastCapAdmission().decide(view(0, 3, ledger=LedgerSnapshot()))

    assert decision.num_admit == 1
    assert POOL_UNKNOWN in decision.reason


def test_families_that_robots_make_up_do_not_fill_the_memory() -> None:
    policy = ForecastCapAdmission()
    for number in range(1000):
        policy.on_end(ended(10_000, f"family {number}"))

    assert len(policy._families) == 256


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1e5)), max_size=30),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_it_never_admits_past_its_cap_and_never_keeps_an_empty_room_closed(
    ends: list[tuple[int, float]], num_inside: int, num_waiting: int
) -> None:
    policy = ForecastCapAdmission()
    for peak_tokens, duration_s in ends:
        policy.on_end(ended(peak_tokens, duration_s=duration_s))

    num_admit = policy.decide(view(num_inside, num_waiting)).num_admit

    assert policy.cap is not None
    assert 0 <= num_admit <= num_waiting
    assert num_inside + num_admit <= max(policy.cap, num_inside)
    if num_inside == 0 and num_waiting:
        assert num_admit >= 1
