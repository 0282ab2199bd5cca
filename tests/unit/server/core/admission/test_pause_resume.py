from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.messages import TokenUsage
from server.core.admission import (
    ActiveEpisode,
    EndedEpisode,
    FleetView,
    PauseResumeAdmission,
    PauseResumeSettings,
    WaitingEpisode,
)
from server.core.leases import EpisodeInfo, LeaseTable
from server.core.registry import EpisodeRegistry
from server.core.residency import (
    CountedTurn,
    EngineGauges,
    LedgerSnapshot,
    PrefixOutcome,
    TurnFootprint,
)

POOL = LedgerSnapshot(pool_blocks=100, block_tokens=1000)


def policy() -> PauseResumeAdmission:
    return PauseResumeAdmission(PauseResumeSettings(room_tokens=0))


def view(tokens: dict[str, int], num_waiting: int = 0, ledger: LedgerSnapshot = POOL) -> FleetView:
    return FleetView(
        0.0,
        tuple(ActiveEpisode(name, "", "", True, 0.0, n, 1) for name, n in tokens.items()),
        tuple(WaitingEpisode(f"w{n}", "", "", True, 0.0) for n in range(num_waiting)),
        ledger,
    )


def turn(name: str, tokens: int = 10_000, first: bool = False) -> CountedTurn:
    footprint = TurnFootprint(0.0, tokens, 0, 0, 0, tokens, 0)
    outcome = PrefixOutcome.FIRST if first else PrefixOutcome.HIT
    return CountedTurn(name, "", footprint, outcome, None, None)


def held(admission: PauseResumeAdmission, tokens: dict[str, int]) -> set[str]:
    return {name for name in tokens if admission.turn_hold_s(name, view(tokens)) > 0}


def test_nobody_is_paused_while_all_fit() -> None:
    fleet, admission = {"a": 40_000, "b": 60_000}, policy()
    admission.control(view(fleet))

    assert held(admission, fleet) == set()


def test_over_the_pool_the_shortest_pause_until_the_rest_fits() -> None:
    fleet, admission = {"a": 60_000, "b": 30_000, "c": 20_000, "d": 10_000}, policy()
    admission.control(view(fleet))

    assert held(admission, fleet) == {"c", "d"}


def test_those_without_a_turn_in_the_engine_pause_first() -> None:
    fleet, admission = {"a": 60_000, "b": 30_000, "c": 20_000}, policy()
    assert admission.turn_hold_s("c", view(fleet)) == 0.0
    admission.control(view(fleet))

    assert held(admission, {"a": 60_000, "b": 30_000}) == {"b"}


def test_a_turn_in_the_engine_ends_and_the_next_one_is_held() -> None:
    fleet, admission = {"a": 60_000, "b": 50_000}, policy()
    for name in fleet:
        admission.turn_hold_s(name, view(fleet))
    admission.control(view(fleet))

    admission.on_turn(turn("b"))

    assert held(admission, fleet) == {"b"}


def test_with_room_the_longest_that_waits_with_a_turn_goes_on_first() -> None:
    fleet, admission = {"a": 80_000, "b": 30_000, "c": 20_000, "d": 25_000}, policy()
    admission.control(view(fleet))
    assert held(admission, {"b": 30_000, "c": 20_000}) == {"b", "c"}

    admission.on_end(EndedEpisode("a", "", "", True, 10.0, 9, 80_000))
    less = {"b": 45_000, "c": 40_000, "d": 35_000}
    admission.control(view(less))

    assert held(admission, less) == {"d"}


def test_the_last_one_is_never_paused() -> None:
    fleet, admission = {"huge": 900_000}, policy()
    admission.control(view(fleet))

    assert held(admission, fleet) == set()


def test_one_that_was_let_go_on_after_the_longest_wait_is_no_longer_paused() -> None:
    fleet, admission = {"a": 80_000, "b": 30_000}, policy()
    admission.control(view(fleet))
    assert held(admission, fleet) == {"b"}

    admission.on_turn(turn("b"))

    assert held(admission, fleet) == set()


def test_new_ones_come_in_while_their_first_turn_fits_and_nobody_waits_paused() -> None:
    admission = policy()
    admission.on_turn(turn("x", 20_000, first=True))

    decision = admission.decide(view({"a": 45_000}, 9))
    assert decision.num_admit == 2
    assert decision.reason.startswith("pause and resume: 3 episodes inside and the next one have")

    fleet = {"a": 80_000, "b": 30_000}
    admission.control(view(fleet))
    held(admission, fleet)
    assert admission.decide(view({"a": 10_000, "b": 10_000}, 9)).num_admit == 0


def test_without_the_pool_s_size_everybody_comes_in_and_nobody_is_paused() -> None:
    fleet, admission = {"a": 80_000, "b": 30_000}, policy()
    admission.control(view(fleet))
    unknown = LedgerSnapshot()
    admission.control(view(fleet, ledger=unknown))

    assert held(admission, fleet) == set()
    assert admission.decide(view(fleet, 7, unknown)).num_admit == 7


def test_no_turn_waits_longer_than_the_door_allows() -> None:
    ids = iter(f"id-{n}" for n in range(100))
    door = EpisodeRegistry(
        LeaseTable(1e9, "boot", lambda: next(ids)), policy(), max_turn_hold_s=30.0
    )
    door.tell_engine(EngineGauges(pool_blocks=100, block_tokens=1000))
    long, short = (
        door.open(EpisodeInfo(f"o{n}", uses_brain=True), 0.0).episode_id for n in range(2)
    )
    door.step(0.0)
    for name, tokens in ((long, 80_000), (short, 30_000)):
        door.turn_hold_s(name, 1.0)
        door.record_turn(name, TokenUsage(input_tokens=tokens, output_tokens=0), 2.0)
    door.step(10.0)

    now_s = 10.0
    while (hold_s := door.turn_hold_s(short, now_s)) > 0:
        now_s += hold_s

    assert now_s == 40.0
    assert door.turn_hold_s(long, now_s) == 0.0


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 120_000)), st.integers(0, 5))
def test_what_goes_on_fits_or_is_a_single_one(fleet: dict[str, int], num_waiting: int) -> None:
    admission = policy()
    admission.control(view(fleet))

    going = fleet.keys() - held(admission, fleet)

    assert sum(fleet[name] for name in going) <= 100_000 or len(going) == 1
    assert going or not fleet
    assert 0 <= admission.decide(view(fleet, num_waiting)).num_admit <= num_waiting
