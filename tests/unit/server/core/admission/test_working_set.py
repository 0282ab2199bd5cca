from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.brain_status_text import POOL_UNKNOWN
from server.core.admission import (
    ActiveEpisode,
    FleetView,
    WaitingEpisode,
    WorkingSetAdmission,
    WorkingSetSettings,
)
from server.core.residency import (
    CapacityEstimate,
    CountedTurn,
    ForecastTable,
    LedgerSnapshot,
    PrefixOutcome,
    RefreshedPrefix,
    TurnFootprint,
    WindowSums,
)
from server.core.residency.forecast import FamilyHistories

BLOCK = 784
FIRST, LATER, NUM_TURNS = 18_000, 3_000, 30
PEAK = FIRST + (NUM_TURNS - 1) * LATER


def table(num_ended: int = 60, family: str = "sort", num_turns: int = NUM_TURNS) -> ForecastTable:
    histories = FamilyHistories()
    for _ in range(num_ended):
        for index in range(num_turns):
            histories.turn(family, index, LATER if index else FIRST)
        histories.ended(family, FIRST + (num_turns - 1) * LATER, num_turns)
    return histories.table


KNOWN = table()


def active(name: str, num_turns: int = 0, uses_brain: bool = True) -> ActiveEpisode:
    context = FIRST + (num_turns - 1) * LATER if num_turns else 0
    return ActiveEpisode(name, "", "sort", uses_brain, 0.0, context, num_turns)


def grown(number: int, num_turns: int = 15) -> list[ActiveEpisode]:
    return [active(f"a{n}", num_turns) for n in range(number)]


def view(
    inside: list[ActiveEpisode],
    num_waiting: int = 60,
    forecasts: ForecastTable = KNOWN,
    *,
    now_s: float = 1000.0,
    uses_brain: bool = True,
    **ledger: Any,
) -> FleetView:
    figures = {"pool_blocks": 4270, "measured_pool_blocks": 4270, "block_tokens": BLOCK, **ledger}
    return FleetView(
        now_s,
        tuple(inside),
        tuple(WaitingEpisode(f"w{n}", "", "sort", uses_brain, 0.0) for n in range(num_waiting)),
        LedgerSnapshot(
            counting_block_tokens=figures["block_tokens"] or 128, forecasts=forecasts, **figures
        ),
    )


def turn(
    now_s: float,
    beyond_living: int = 0,
    outcome: PrefixOutcome = PrefixOutcome.HIT,
    num_live: int = 20,
) -> CountedTurn:
    footprint = TurnFootprint(now_s, 80_000, 77_000, 76_832, 76_832, 3_168, 144)
    return CountedTurn("a0", "sort", footprint, outcome, 0, 2000 + beyond_living, 2000, num_live)


def admitted(policy: WorkingSetAdmission, inside: list[ActiveEpisode], **others: Any) -> int:
    """How many come in if those who did have grown before the next ones are asked for."""
    while True:
        num_admit = policy.decide(view(inside, **others)).num_admit
        if num_admit == 0:
            return len(inside)
        inside = grown(len(inside) + num_admit)


def test_episodes_come_in_until_what_all_will_need_fills_the_room() -> None:
    inside = admitted(WorkingSetAdmission(), [])

    # 60% of those with 15 turns now are at their longest, 105,000 tokens, at the highest point.
    assert 3630 / (PEAK / BLOCK) - 2 <= inside <= 3630 / (PEAK / BLOCK) + 3
    decision = WorkingSetAdmission().decide(view(grown(inside)))
    assert decision.reason.startswith(
        f"working set: {inside} episodes inside and the next one are forecast to need "
    )
    assert decision.reason.endswith(" of 3629 blocks")


def test_young_episodes_count_as_what_they_will_become() -> None:
    young = [active(f"a{n}", 6) for n in range(26)]

    assert WorkingSetAdmission().decide(view(young)).num_admit <= 2


def test_longer_tasks_let_fewer_in() -> None:
    longer = table(num_turns=60)

    assert admitted(WorkingSetAdmission(), [], forecasts=longer) < 20


def test_what_turns_need_beyond_the_living_is_kept_free_for_each_inside() -> None:
    calm, stormy = WorkingSetAdmission(), WorkingSetAdmission()
    for number in range(400):
        calm.on_turn(turn(float(number)))
        stormy.on_turn(turn(float(number), beyond_living=100 * (number % 10)))

    assert admitted(stormy, []) < admitted(calm, []) - 3


def test_a_bad_time_is_not_held_against_later_ones_for_ever() -> None:
    policy = WorkingSetAdmission()
    for number in range(100):
        policy.on_turn(turn(float(number), beyond_living=100_000))

    assert admitted(policy, grown(4)) > 15


def test_only_a_part_of_those_inside_may_be_young() -> None:
    decision = WorkingSetAdmission().decide(view(grown(10)))

    assert decision.num_admit == 8
    assert decision.reason == "working set: 8 of 18 episodes inside have only just begun"


def test_before_anything_has_ended_part_of_the_room_is_planned_with() -> None:
    starting = FamilyHistories()
    for index in range(3):
        starting.turn("sort", index, LATER if index else FIRST)

    decision = WorkingSetAdmission().decide(view([active("a", 3)], forecasts=starting.table))

    assert 10 < decision.num_admit < 40
    assert decision.reason.endswith(f" of {int(0.6 * 3629)} blocks")


def test_while_no_conversation_is_known_a_handful_comes_in() -> None:
    decision = WorkingSetAdmission().decide(view([], forecasts=ForecastTable()))

    assert decision.num_admit == 8
    assert decision.reason.startswith("working set, slow start: 8 episodes inside")


def test_a_pool_that_keeps_less_than_told_lets_fewer_in() -> None:
    lost = CapacityEstimate(survived_blocks=2000, lost_blocks=2500)

    fewer = admitted(WorkingSetAdmission(), [], capacity=lost)

    assert fewer < 0.75 * admitted(WorkingSetAdmission(), [])


def test_a_pool_told_too_large_is_found_out_by_the_engine_s_usage() -> None:
    right = admitted(WorkingSetAdmission(), [])

    assert admitted(WorkingSetAdmission(), [], pool_blocks=int(1.3 * 4270)) == right


def test_without_that_gauge_it_goes_on_from_what_was_seen_to_survive() -> None:
    told = {"pool_blocks": 5551, "measured_pool_blocks": None}
    policy = WorkingSetAdmission()

    proven = [
        policy.report(view([], capacity=CapacityEstimate(survived), **told)).capacity_blocks
        for survived in (None, 3000, 3800, 6000)
    ]

    assert proven == [int(0.65 * 5551), int(0.65 * 5551), 4180, int(0.85 * 5551)]


def test_without_a_pool_size_it_lives_on_what_was_seen_to_survive() -> None:
    policy = WorkingSetAdmission()
    unknown = {"pool_blocks": None, "measured_pool_blocks": None, "block_tokens": None}

    nothing = policy.decide(view(grown(8), **unknown))
    some = admitted(policy, [], capacity=CapacityEstimate(15_000), **unknown)

    assert nothing.num_admit == 0
    assert POOL_UNKNOWN in nothing.reason
    assert policy.report(view(grown(3), **unknown)).capacity_blocks is None
    assert 12 < some < 24


def test_a_configured_share_is_not_corrected() -> None:
    policy = WorkingSetAdmission(WorkingSetSettings(pool_share=0.5))
    lost = CapacityEstimate(survived_blocks=100, lost_blocks=200)

    assert policy.report(view([], capacity=lost)).capacity_blocks == 2135


def test_after_a_lost_prefix_the_door_stays_closed_for_a_while() -> None:
    policy = WorkingSetAdmission()
    policy.on_turn(turn(990.0, outcome=PrefixOutcome.MISS))

    assert policy.decide(view(grown(4))).num_admit == 0
    assert policy.decide(view(grown(4), now_s=1005.0)).num_admit > 0


def test_while_prefixes_are_being_lost_nobody_comes_in() -> None:
    def decide(hits: int, misses: int, inside: list[ActiveEpisode]) -> int:
        window = WindowSums(num_hits=hits, num_misses=misses)
        return WorkingSetAdmission().decide(view(inside, 3, window=window)).num_admit

    assert decide(94, 6, grown(4)) == 0
    assert decide(95, 5, grown(4)) == 3
    # A handful of turns says nothing, and an empty room has nothing to lose.
    assert decide(0, 9, grown(4)) == 3
    assert decide(0, 99, []) == 1


def test_one_episode_is_let_in_even_if_it_is_larger_than_the_pool() -> None:
    assert WorkingSetAdmission().decide(view([], 2, measured_pool_blocks=10)).num_admit == 1


def test_a_huge_episode_inside_closes_the_door_until_it_ends() -> None:
    huge = replace(active("huge", 10), context_tokens=2_900_000)

    assert WorkingSetAdmission().decide(view([huge])).num_admit == 0


def test_a_family_that_nobody_knows_is_let_in_with_more_care() -> None:
    stranger = [replace(episode, task_family="new") for episode in grown(16, 10)]
    histories = FamilyHistories()
    for number in range(60):
        for index in range(12 + number % 20):
            histories.turn("sort", index, LATER if index else FIRST)
        histories.ended("sort", FIRST, 12 + number % 20)
    policy = WorkingSetAdmission()

    forecast = policy.report(view(stranger, 0, histories.table)).forecast_blocks
    known = policy.report(view(grown(16, 10), 0, histories.table)).forecast_blocks

    assert forecast is not None
    assert known is not None
    assert forecast > known


def test_episodes_without_a_brain_cost_nothing() -> None:
    policy = WorkingSetAdmission()

    assert policy.decide(view(grown(40), 7, uses_brain=False)).num_admit == 7
    no_brain = [active(f"b{n}", uses_brain=False) for n in range(500)]
    assert policy.decide(view([*no_brain, *grown(10)])).num_admit == 8


def test_people_see_the_blocks_spoken_for_and_the_room() -> None:
    report = WorkingSetAdmission().report(view(grown(2), 0))

    assert report.capacity_blocks == 3629
    assert report.forecast_blocks is not None
    assert 200 < report.forecast_blocks < 300
    assert report.detail == "forecast from 60 ended episodes"


@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 300_000)), max_size=40),
    st.integers(0, 60),
    st.none() | st.integers(1, 10_000),
    st.integers(0, 20),
    st.none() | st.integers(1, 9000),
    st.lists(st.integers(-5000, 50_000), max_size=60),
)
def test_it_never_admits_over_the_room(
    episodes: list[tuple[int, int]],
    num_waiting: int,
    pool_blocks: int | None,
    num_ended: int,
    survived: int | None,
    beyond: list[int],
) -> None:
    inside = [
        replace(active(f"a{n}"), num_turns=turns, context_tokens=tokens)
        for n, (turns, tokens) in enumerate(episodes)
    ]
    policy = WorkingSetAdmission()
    for number, blocks in enumerate(beyond):
        policy.on_turn(turn(float(number), beyond_living=blocks))
    before = view(
        inside,
        num_waiting,
        table(num_ended),
        pool_blocks=pool_blocks,
        measured_pool_blocks=None,
        capacity=CapacityEstimate(survived_blocks=survived),
    )

    num_admit = policy.decide(before).num_admit

    assert 0 <= num_admit <= num_waiting
    assert num_admit >= min(num_waiting, 1) or inside
    room = policy.report(before).capacity_blocks
    if num_ended >= 4 and num_admit > 0 and inside and room is not None:
        # Nobody comes in on top of what is full already.
        forecast = policy.report(before).forecast_blocks
        assert forecast is not None
        assert forecast <= room + 1


@given(st.integers(1, 30), st.integers(0, 200))
def test_nobody_waits_for_ever(num_turns: int, beyond: int) -> None:
    """Whoever is inside ends some day, and then the next one comes in."""
    policy = WorkingSetAdmission()
    for number in range(60):
        policy.on_turn(turn(float(number), beyond_living=beyond))
    inside = grown(30, num_turns)
    while inside and policy.decide(view(inside, 1)).num_admit == 0:
        inside.pop()

    assert policy.decide(view(inside, 1)).num_admit == 1


def test_prefixes_are_kept_warm_once_they_need_most_of_the_room() -> None:
    ledger = view([]).ledger

    assert WorkingSetAdmission().refresh_limit_blocks(ledger) == int(0.95 * 3629)
    off = WorkingSetAdmission(WorkingSetSettings(refresh=False))
    assert off.refresh_limit_blocks(ledger) is None
    silent = view([], pool_blocks=None, measured_pool_blocks=None, block_tokens=None).ledger
    assert WorkingSetAdmission().refresh_limit_blocks(silent) is None


def test_what_a_turn_needed_below_the_limit_of_refreshes_is_no_surprise() -> None:
    def inside(refresh_limit_blocks: int | None) -> int:
        policy = WorkingSetAdmission()
        for n in range(200):
            refreshed = replace(
                turn(900.0 + 0.5 * n, 1300), refresh_limit_blocks=refresh_limit_blocks
            )
            policy.on_turn(refreshed)
        return admitted(policy, [])

    assert inside(3400) > inside(None) + 4


def test_the_door_stays_closed_for_a_while_after_a_refresh_that_came_too_late() -> None:
    policy = WorkingSetAdmission()
    policy.on_refresh(RefreshedPrefix("a", 3500, False, 990.0))

    assert policy.decide(view(grown(3), now_s=1000.0)).reason == (
        "working set: a prefix of 3 episodes inside was lost just now"
    )
    assert policy.decide(view(grown(3), now_s=1010.0)).num_admit > 0


def test_the_youngest_are_parked_while_the_living_fill_the_room() -> None:
    policy = WorkingSetAdmission()
    inside = [active("old", 20), active("middle", 10), active("young", 2), active("new", 0)]

    full = view(inside, working_set_blocks=3700)
    holds_s = {e.episode_id: policy.turn_hold_s(e.episode_id, full) for e in inside}
    assert {name for name, hold_s in holds_s.items() if hold_s > 0} == {"young", "new"}
    roomy = view(inside, working_set_blocks=3600)
    assert {policy.turn_hold_s(e.episode_id, roomy) for e in inside} == {0.0}


def test_nobody_is_parked_alone_or_at_an_engine_that_tells_no_pool() -> None:
    policy = WorkingSetAdmission()

    assert policy.turn_hold_s("only", view([active("only", 3)], working_set_blocks=5000)) == 0.0
    silent = view([active("a", 3), active("b", 2)], pool_blocks=None, measured_pool_blocks=None)
    assert policy.turn_hold_s("b", silent) == 0.0
