"""What the registry tells ledger and policy, and the order between tenants."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from robot_sdk.messages import TokenUsage
from server.core.admission import (
    AdmissionDecision,
    AdmissionPolicy,
    EndedEpisode,
    FleetView,
    StaticCapAdmission,
    WorkingSetAdmission,
)
from server.core.leases import EndCause, EpisodeInfo, LeaseTable
from server.core.registry import AdmittedEvent, EpisodeRegistry
from server.core.residency import CountedTurn, EngineGauges

TTL_S = 10.0
USAGE = TokenUsage(input_tokens=1000, cached_tokens=0, output_tokens=20, new_tokens=1000)


class Spy(StaticCapAdmission):
    """A static cap that writes down what it is told, and holds turns as long as it may."""

    holds_turns = True

    def __init__(self, cap: int | None) -> None:
        super().__init__(cap)
        self.ends: list[EndedEpisode] = []
        self.turns: list[CountedTurn] = []
        self.views: list[FleetView] = []

    def on_turn(self, turn: CountedTurn) -> None:
        self.turns.append(turn)

    def on_end(self, ended: EndedEpisode) -> None:
        self.ends.append(ended)

    def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
        return 1000.0

    def decide(self, view: FleetView) -> AdmissionDecision:
        self.views.append(view)
        return super().decide(view)


def registry(policy: AdmissionPolicy, **fields: object) -> EpisodeRegistry:
    ids = (f"id-{n}" for n in itertools.count())
    leases = LeaseTable(TTL_S, "boot", lambda: next(ids))
    return EpisodeRegistry(leases, policy, **fields)  # type: ignore[arg-type]


def test_a_committed_turn_reaches_the_ledger_and_the_policy() -> None:
    spy = Spy(1)
    door = registry(spy)
    episode_id = door.open(EpisodeInfo("a", task_family="sort", uses_brain=True), 0.0).episode_id
    door.step(0.0)

    door.record_turn(episode_id, USAGE, 1.0)

    assert door.ledger.snapshot(1.0).working_set_tokens == 1020
    assert [turn.task_family for turn in spy.turns] == ["sort"]
    (active,) = door.view(2.0).active
    assert (active.context_tokens, active.num_turns, active.last_turn_s) == (1020, 1, 1.0)


def test_an_episode_without_a_brain_is_forecast_to_need_no_blocks() -> None:
    door = registry(StaticCapAdmission(2))
    door.tell_engine(EngineGauges(pool_blocks=100, block_tokens=16))
    brain = door.open(EpisodeInfo("a", uses_brain=True), 0.0).episode_id
    door.step(0.0)
    door.record_turn(brain, USAGE, 1.0)
    door.end(brain, EndCause.ENDED_BY_ROBOT, 2.0)

    door.open(EpisodeInfo("b"), 3.0)
    door.step(3.0)

    assert door.num_active == 1
    snapshot = door.ledger.snapshot(3.0)
    assert (snapshot.num_live, snapshot.forecast_blocks) == (0, 0)


def test_c1_an_expired_episode_leaves_ledger_and_working_set() -> None:
    spy = Spy(1)
    door = registry(spy)
    episode_id = door.open(EpisodeInfo("a", uses_brain=True), 0.0).episode_id
    door.step(0.0)
    door.record_turn(episode_id, USAGE, 1.0)

    door.step(10.0)

    assert door.ledger.snapshot(10.0).working_set_tokens == 0
    (ended,) = spy.ends
    assert (ended.peak_tokens, ended.num_turns, ended.went_to_its_end) == (1020, 1, False)


def test_c3_a_turn_after_the_end_counts_nothing() -> None:
    spy = Spy(1)
    door = registry(spy)
    episode_id = door.open(EpisodeInfo("a", uses_brain=True), 0.0).episode_id
    door.step(0.0)
    door.end(episode_id, EndCause.ENDED_BY_ROBOT, 1.0)

    assert door.record_turn(episode_id, USAGE, 2.0) is None
    assert spy.turns == []
    assert door.ledger.snapshot(2.0).num_live == 0


def test_an_episode_that_never_came_in_is_no_end_for_the_policy() -> None:
    spy = Spy(0)
    door = registry(spy)
    episode_id = door.open(EpisodeInfo("a", uses_brain=True), 0.0).episode_id
    door.step(0.0)

    door.end(episode_id, EndCause.ENDED_BY_ROBOT, 1.0)

    assert spy.ends == []


@pytest.mark.parametrize(
    ("cause", "counts"),
    [
        (EndCause.ENDED_BY_ROBOT, True),
        (EndCause.CONTEXT_LIMIT, True),
        (EndCause.ENDED_BY_OPERATOR, False),
        (EndCause.FAULT, False),
    ],
)
def test_only_episodes_that_went_to_their_end_teach_how_long_their_family_is(
    cause: EndCause, counts: bool
) -> None:
    door = registry(Spy(1))
    episode_id = door.open(EpisodeInfo("a", task_family="sort", uses_brain=True), 0.0).episode_id
    door.step(0.0)
    door.record_turn(episode_id, USAGE, 1.0)
    door.end(episode_id, cause, 2.0)

    assert (door.ledger.forecasts.of("sort").peak_tokens is not None) == counts


def test_c1_a_policy_that_fails_at_an_end_keeps_no_slot(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(StaticCapAdmission):
        def on_end(self, ended: EndedEpisode) -> None:
            raise RuntimeError("broken")

    door = registry(Faulty(1))
    first = door.open(EpisodeInfo("a", uses_brain=True), 0.0).episode_id
    door.open(EpisodeInfo("b"), 0.0)
    door.step(0.0)

    door.end(first, EndCause.ENDED_BY_ROBOT, 1.0)

    assert [type(event) for event in door.step(1.0)] == [AdmittedEvent]
    assert "failed at the end of an episode" in caplog.text


def test_a_held_turn_starts_when_the_bound_is_reached() -> None:
    door = registry(Spy(1), max_turn_hold_s=5.0)
    episode_id = door.open(EpisodeInfo("a", uses_brain=True), 0.0).episode_id
    door.step(0.0)

    assert door.turn_hold_s(episode_id, 1.0) == 5.0
    assert door.turn_hold_s(episode_id, 4.0) == 2.0
    assert door.turn_hold_s(episode_id, 6.0) == 0.0
    # The next turn has a bound of its own.
    assert door.turn_hold_s(episode_id, 7.0) == 5.0
    door.end(episode_id, EndCause.ENDED_BY_ROBOT, 8.0)
    assert door._held_since_s == {}


def test_policies_that_do_not_hold_turns_are_not_asked() -> None:
    door = registry(StaticCapAdmission(1))
    episode_id = door.open(EpisodeInfo("a", uses_brain=True), 0.0).episode_id
    door.step(0.0)

    assert door.turn_hold_s(episode_id, 1.0) == 0.0


def test_a_place_says_what_fairness_between_tenants_makes_of_it() -> None:
    door = registry(StaticCapAdmission(1))
    for name in ("a1", "a2", "a3", "b1"):
        door.open(EpisodeInfo(name, tenant=name[0]), 0.0)
    door.step(0.0)
    names = {episode.episode_id: episode.info.open_id for episode in door.leases}

    places = door.places(0.0)

    assert [names[place.episode_id] for place in places] == ["b1", "a2", "a3"]
    assert [place.position for place in places] == [1, 2, 3]


def test_weights_share_the_room() -> None:
    door = registry(StaticCapAdmission(6), tenant_weights={"b": 2.0})
    for number in range(9):
        for tenant in "ab":
            door.open(EpisodeInfo(f"{tenant}{number}", tenant=tenant), 0.0)
    door.step(0.0)

    assert Counter(e.info.tenant for e in door.active()) == {"a": 2, "b": 4}


def test_the_wait_is_told_where_the_policy_counts_blocks_instead_of_episodes() -> None:
    door = registry(WorkingSetAdmission())
    door.tell_engine(EngineGauges(pool_blocks=4270, block_tokens=784))
    for number in range(10):
        door.open(EpisodeInfo(f"a{number}", uses_brain=True), 0.0)
    door.step(0.0)
    first = door.active()[0].episode_id
    door.end(first, EndCause.ENDED_BY_ROBOT, 8.0)
    door.step(8.0)
    (place,) = door.places(8.0)

    assert len(door.active()) == 8
    assert place.expected_wait_s == 0.0
    assert place.reason.startswith("working set, slow start: 8 episodes inside")


class Tenants(RuleBasedStateMachine):
    """Random robots of three tenants: FIFO in each, every end told once, books in step."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.spy = Spy(3)
        self.door = registry(self.spy, tenant_weights={"b": 2.0}, max_turn_hold_s=5.0)
        self.names = (f"robot-{n}" for n in itertools.count())
        self.admitted: list[str] = []

    def step(self) -> None:
        self.door.step(self.now_s)
        in_line = {place.episode_id for place in self.door.places(self.now_s)}
        assert in_line == {episode.episode_id for episode in self.door.queued()}
        for view in self.spy.views:
            for tenant in "abc":
                waits = [w.waited_s for w in view.waiting if w.tenant == tenant]
                assert waits == sorted(waits, reverse=True)
        self.spy.views.clear()

    @rule(tenant=st.sampled_from("abc"))
    def open(self, tenant: str) -> None:
        self.now_s += 0.01
        info = EpisodeInfo(next(self.names), tenant=tenant, uses_brain=True)
        self.door.open(info, self.now_s)
        self.step()

    @precondition(lambda self: len(self.door.leases))
    @rule(data=st.data(), cause=st.sampled_from(EndCause))
    def end(self, data: st.DataObject, cause: EndCause) -> None:
        episode = data.draw(st.sampled_from(list(self.door.leases)))
        self.door.end(episode.episode_id, cause, self.now_s)
        self.step()

    @precondition(lambda self: self.door.num_active)
    @rule(data=st.data(), tokens=st.integers(0, 5000))
    def turn(self, data: st.DataObject, tokens: int) -> None:
        episode = data.draw(st.sampled_from(self.door.active()))
        held_s = 0.0
        while (hold_s := self.door.turn_hold_s(episode.episode_id, self.now_s)) > 0:
            held_s += hold_s
            self.now_s += hold_s
        # Held, at most for the bound, and never refused.
        assert held_s <= 5.0 + 1e-9
        usage = TokenUsage(input_tokens=tokens, output_tokens=1)
        assert self.door.record_turn(episode.episode_id, usage, self.now_s) is not None

    @rule(seconds=st.floats(0.0, 12.0))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.step()

    @invariant()
    def the_policy_has_seen_every_end_once(self) -> None:
        seen = Counter(ended.episode_id for ended in self.spy.ends)
        assert set(seen.values()) <= {1}
        assert len(seen) == self.door.counters.ended

    @invariant()
    def ledger_and_room_agree(self) -> None:
        snapshot = self.door.ledger.snapshot(self.now_s)
        assert snapshot.num_live == self.door.num_active <= 3
        assert len(self.door._held_since_s) <= self.door.num_active


TestTenants = Tenants.TestCase
TestTenants.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
