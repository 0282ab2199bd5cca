from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.core.admission import (
    ActiveEpisode,
    FleetView,
    WaitingEpisode,
    WorkingSetAdmission,
    WorkingSetSettings,
)
from server.core.residency import (
    CapacityEstimate,
    FamilyForecast,
    ForecastTable,
    LedgerSnapshot,
    WindowSums,
)

BLOCK = 784
#: An episode that has just come in: 0.85 of a peak of 100,000 tokens, and 8 blocks.
PRICE = 109 + 8
KNOWN = FamilyForecast(num_ended=20, peak_tokens=100_000.0, growth_tokens_per_turn=3300.0)


def active(name: str, context: int = 0, uses_brain: bool = True) -> ActiveEpisode:
    return ActiveEpisode(name, "", "sort", uses_brain, 0.0, context)


def view(
    inside: list[ActiveEpisode],
    num_waiting: int,
    forecast: FamilyForecast = KNOWN,
    pool_blocks: int | None = 4270,
    block_tokens: int | None = BLOCK,
    capacity: CapacityEstimate | None = None,
    hits: int = 0,
    misses: int = 0,
    waiting_use_brain: bool = True,
) -> FleetView:
    return FleetView(
        0.0,
        tuple(inside),
        tuple(
            WaitingEpisode(f"w{n}", "", "sort", waiting_use_brain, 0.0) for n in range(num_waiting)
        ),
        LedgerSnapshot(
            window=WindowSums(num_hits=hits, num_misses=misses),
            pool_blocks=pool_blocks,
            block_tokens=block_tokens,
            capacity=capacity or CapacityEstimate(),
            forecasts=ForecastTable(forecast.num_ended, forecast, {"sort": forecast}),
        ),
    )


def test_episodes_come_in_while_the_prices_fit_the_pool() -> None:
    decision = WorkingSetAdmission().decide(view([], 60))

    assert decision.num_admit == int(0.85 * 4270) // PRICE == 31
    assert decision.reason == (
        "working set: 31 episodes inside are forecast to need 3627 of 3629 blocks, "
        "the next one 117 more"
    )


def test_a_young_episode_is_priced_at_what_it_will_become() -> None:
    grown = [active(f"a{n}", context=85_000) for n in range(28)]
    young = [active(f"a{n}", context=5_000) for n in range(28)]
    policy = WorkingSetAdmission()

    assert policy.decide(view(young, 60)).num_admit == 3
    assert policy.decide(view(grown, 60)).num_admit < policy.decide(view(young, 60)).num_admit


def test_an_episode_longer_than_its_family_is_priced_by_its_context() -> None:
    long = [active(f"a{n}", context=215_000) for n in range(12)]

    assert WorkingSetAdmission().decide(view(long, 60)).num_admit == 1


def test_a_pool_that_keeps_less_than_told_lets_fewer_in() -> None:
    capacity = CapacityEstimate(survived_blocks=2000, lost_blocks=2500)

    decision = WorkingSetAdmission().decide(view([], 60, capacity=capacity))

    assert decision.num_admit == 2500 // PRICE


def test_a_configured_share_is_not_corrected() -> None:
    policy = WorkingSetAdmission(WorkingSetSettings(pool_share=0.5))
    capacity = CapacityEstimate(survived_blocks=4000)

    assert policy.decide(view([], 60, capacity=capacity)).num_admit == 2135 // PRICE


def test_without_history_it_starts_slowly_and_goes_on_while_nothing_is_lost() -> None:
    policy = WorkingSetAdmission()
    inside = [active(f"a{n}", 5000) for n in range(4)]
    assert policy.decide(view([], 60, FamilyForecast())).num_admit == 4
    assert policy.decide(view(inside, 60, FamilyForecast())).num_admit == 0

    policy.control(view(inside, 60, FamilyForecast(), hits=50))

    decision = policy.decide(view(inside, 60, FamilyForecast()))
    assert decision.num_admit == 1
    assert decision.reason.startswith("working set, slow start: 5 episodes inside")


def test_slow_start_waits_while_hits_are_unknown_or_slots_are_free() -> None:
    policy = WorkingSetAdmission()
    inside = [active(f"a{n}", 5000) for n in range(4)]
    policy.control(view(inside, 60, FamilyForecast(), hits=0))
    policy.control(view(inside[:3], 60, FamilyForecast(), hits=50))

    assert policy.decide(view(inside, 60, FamilyForecast())).num_admit == 0


def test_while_prefixes_are_being_lost_nobody_comes_in() -> None:
    inside = [active(f"a{n}", 5000) for n in range(4)]
    policy = WorkingSetAdmission()

    decision = policy.decide(view(inside, 3, hits=94, misses=6))

    assert decision.num_admit == 0
    assert "are being lost (hit 0.94)" in decision.reason
    assert policy.decide(view(inside, 3, hits=95, misses=5)).num_admit == 3
    # A handful of turns says nothing, and an empty room has nothing to lose.
    assert policy.decide(view(inside, 3, hits=0, misses=9)).num_admit == 3
    assert policy.decide(view([], 3, hits=0, misses=99)).num_admit == 1


def test_an_unknown_pool_is_named_with_what_to_set() -> None:
    policy = WorkingSetAdmission()
    inside = [active(f"a{n}", 5000) for n in range(4)]

    decision = policy.decide(view(inside, 3, pool_blocks=None))

    assert decision.num_admit == 0
    assert "admission.pool_blocks" in decision.reason
    assert policy.report(view(inside, 3, pool_blocks=None)).capacity_blocks is None


def test_one_episode_is_let_in_even_if_it_is_larger_than_the_pool() -> None:
    huge = FamilyForecast(20, 10_000_000.0, 3300.0)

    assert WorkingSetAdmission().decide(view([], 2, huge)).num_admit == 1


def test_episodes_without_a_brain_cost_nothing() -> None:
    inside = [active(f"a{n}") for n in range(31)]

    assert WorkingSetAdmission().decide(view(inside, 7, waiting_use_brain=False)).num_admit == 7
    no_brain = [active(f"a{n}", uses_brain=False) for n in range(500)]
    assert WorkingSetAdmission().decide(view(no_brain, 60)).num_admit == 31


def test_people_see_the_blocks_spoken_for_and_those_that_survive() -> None:
    report = WorkingSetAdmission().report(view([active("a"), active("b")], 0))

    assert (report.forecast_blocks, report.capacity_blocks) == (2 * PRICE, 3629)
    assert report.detail == "forecast from 20 ended episodes"


@given(
    st.lists(st.integers(0, 300_000), max_size=40),
    st.integers(0, 60),
    st.integers(1, 10_000),
    st.integers(0, 400_000),
    st.integers(0, 20),
    st.none() | st.integers(1, 9000),
)
def test_it_never_admits_over_its_budget(
    contexts: list[int],
    num_waiting: int,
    pool_blocks: int,
    peak: int,
    num_ended: int,
    survived: int | None,
) -> None:
    forecast = FamilyForecast(num_ended, float(peak) if num_ended else None, 3300.0)
    inside = [active(f"a{n}", tokens) for n, tokens in enumerate(contexts)]
    before = view(
        inside,
        num_waiting,
        forecast,
        pool_blocks=pool_blocks,
        capacity=CapacityEstimate(survived_blocks=survived),
    )
    policy = WorkingSetAdmission()

    num_admit = policy.decide(before).num_admit

    assert 0 <= num_admit <= num_waiting
    assert num_admit >= min(num_waiting, 1) or inside
    more = [active(f"n{n}") for n in range(num_admit)]
    after = policy.report(view([*inside, *more], 0, forecast, pool_blocks=pool_blocks))
    budget = policy.report(before).capacity_blocks
    assert after.forecast_blocks is not None
    assert budget is not None
    if num_admit > 1 or (num_admit == 1 and inside):
        assert after.forecast_blocks <= budget
