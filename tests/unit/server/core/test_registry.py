"""The door as a state machine: whatever robots do, nobody is lost, doubled or let past the cap."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from robot_sdk.errors import DrainingError, InvalidArgumentError, OverloadedError, RobotSdkError
from server.core.admission import (
    AdmissionDecision,
    AdmissionReport,
    FleetView,
    StaticCapAdmission,
    UnlimitedAdmission,
)
from server.core.leases import Attachment, EndCause, EpisodeInfo, LeaseTable
from server.core.registry import AdmittedEvent, EpisodeRegistry, RemovedEvent

TTL_S = 10.0


def registry(cap: int | None = 1, **settings: object) -> EpisodeRegistry:
    ids = (f"id-{n}" for n in itertools.count())
    leases = LeaseTable(TTL_S, "boot", lambda: next(ids))
    return EpisodeRegistry(leases, StaticCapAdmission(cap), **settings)  # type: ignore[arg-type]


def open_ids(door: EpisodeRegistry) -> list[str]:
    return [episode.info.open_id for episode in door.queued()]


def test_c1_an_expired_lease_frees_its_slot_in_the_same_step() -> None:
    door = registry(cap=1)
    door.open(EpisodeInfo("dead"), 0.0)
    door.step(0.0)
    waiter = door.open(EpisodeInfo("waiter"), 5.0)
    door.leases.heartbeat(waiter, 9.0)

    events = door.step(10.0)

    assert [type(e) for e in events] == [RemovedEvent, AdmittedEvent]
    assert [e.episode.info.open_id for e in events] == ["dead", "waiter"]
    assert door.counters.expired == 1


def test_who_needs_the_brain_waits_for_it_with_the_reason_and_the_others_come_in() -> None:
    door = registry(cap=None)
    door.tell_brain("it is loading")
    door.open(EpisodeInfo("thinker", uses_brain=True), 0.0)
    door.open(EpisodeInfo("mover", uses_brain=False), 0.0)

    events = door.step(0.0)

    assert [event.episode.info.open_id for event in events] == ["mover"]
    assert [place.reason for place in door.places(0.0)] == ["the brain is not ready: it is loading"]
    assert door.waiting_reason == "the brain is not ready: it is loading"
    door.tell_brain("")
    assert [event.episode.info.open_id for event in door.step(1.0)] == ["thinker"]


def test_a_queued_robot_that_dies_loses_its_place() -> None:
    door = registry(cap=0)
    door.open(EpisodeInfo("dead"), 0.0)
    alive = door.open(EpisodeInfo("alive"), 0.0)
    door.leases.heartbeat(alive, 8.0)

    door.step(10.0)

    assert open_ids(door) == ["alive"]
    assert [place.position for place in door.places(10.0)] == [1]


def test_raising_the_cap_admits_in_order_of_arrival() -> None:
    door = registry(cap=0)
    for name in "abc":
        door.open(EpisodeInfo(name), 0.0)
    door.step(0.0)

    door.set_cap(2)

    assert [e.episode.info.open_id for e in door.step(0.0)] == ["a", "b"]


def test_lowering_the_cap_ends_nobody() -> None:
    door = registry(cap=2)
    for name in "ab":
        door.open(EpisodeInfo(name), 0.0)
    door.step(0.0)

    door.set_cap(1)
    door.step(0.0)

    assert len(door.active()) == 2


def test_only_a_policy_with_a_cap_takes_one() -> None:
    door = EpisodeRegistry(LeaseTable(TTL_S, "boot", lambda: "x"), UnlimitedAdmission())

    with pytest.raises(InvalidArgumentError, match="static-cap"):
        door.set_cap(3)


def test_a_draining_server_takes_no_new_episode_and_says_when_to_retry() -> None:
    door = registry(cap=0)
    door.open(EpisodeInfo("queued"), 0.0)
    door.begin_drain(0.0, 30.0, "update")

    with pytest.raises(DrainingError) as caught:
        door.open(EpisodeInfo("new"), 10.0)
    assert caught.value.retry_after_s == 21.0
    assert door.open(EpisodeInfo("queued"), 10.0).stream == 2


def test_a_full_queue_refuses_with_a_reason() -> None:
    door = registry(cap=0, max_waiting=1)
    door.open(EpisodeInfo("a"), 0.0)

    with pytest.raises(OverloadedError, match="max_waiting"):
        door.open(EpisodeInfo("b"), 0.0)


def test_an_episode_is_ended_at_its_longest_time() -> None:
    door = registry(cap=1, max_duration_s=5.0)
    attachment = door.open(EpisodeInfo("a"), 0.0)
    door.step(0.0)
    door.leases.heartbeat(attachment, 4.0)

    (event,) = door.step(5.0)

    assert isinstance(event, RemovedEvent)
    assert event.cause is EndCause.MAX_DURATION


def test_the_expected_wait_comes_from_episodes_that_robots_ended() -> None:
    door = registry(cap=1)
    first = door.open(EpisodeInfo("a"), 0.0)
    door.step(0.0)
    door.end(first.episode_id, EndCause.ENDED_BY_ROBOT, 8.0)
    door.open(EpisodeInfo("b"), 8.0)
    door.step(8.0)
    door.open(EpisodeInfo("c"), 10.0)

    (place,) = door.places(10.0)

    assert place.expected_wait_s == 6.0


class Door(RuleBasedStateMachine):
    """Random robots at a door with a changing cap."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.cap: int | None = 2
        self.door = registry(cap=2)
        self.attachments: dict[str, Attachment] = {}
        self.names = (f"robot-{n}" for n in itertools.count())
        self.arrivals: list[str] = []
        self.num_opened = self.num_admitted = self.num_gone = 0

    def step(self) -> None:
        queue = [e.episode_id for e in self.door.queued()]
        num_active = len(self.door.active())
        events = self.door.step(self.now_s)
        gone = {e.episode.episode_id for e in events if isinstance(e, RemovedEvent)}
        admitted = [e.episode.episode_id for e in events if isinstance(e, AdmittedEvent)]
        self.num_gone += len(gone)
        self.num_admitted += len(admitted)
        # First in, first out: those admitted are the head of who was still there.
        assert admitted == [e for e in queue if e not in gone][: len(admitted)]
        if self.cap is not None and admitted:
            assert len(self.door.active()) <= self.cap
        assert len(self.door.active()) <= max(num_active, self.cap or 10**9)

    @rule()
    def open(self) -> None:
        name = next(self.names)
        self.attachments[name] = self.door.open(EpisodeInfo(name), self.now_s)
        self.num_opened += 1
        self.step()

    @precondition(lambda self: self.attachments)
    @rule(data=st.data())
    def heartbeat_or_reopen_or_end(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.attachments)))
        action = data.draw(st.sampled_from(["heartbeat", "reopen", "end", "end twice"]))
        attachment = self.attachments[name]
        lives = self.door.leases.get(attachment.episode_id) is not None
        try:
            if action == "heartbeat":
                self.door.leases.heartbeat(attachment, self.now_s)
            elif action == "reopen":
                self.attachments[name] = self.door.open(EpisodeInfo(name), self.now_s)
                self.num_opened += not lives
            else:
                self.door.end(attachment.episode_id, EndCause.ENDED_BY_ROBOT, self.now_s)
                self.num_gone += 1
                if action == "end twice":
                    self.door.end(attachment.episode_id, EndCause.ENDED_BY_ROBOT, self.now_s)
        except RobotSdkError:
            assert not lives or action == "end twice"
        self.step()

    @rule(seconds=st.floats(0.0, 15.0))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.step()

    @rule(cap=st.one_of(st.none(), st.integers(0, 4)))
    def set_cap(self, cap: int | None) -> None:
        self.cap = cap
        self.door.set_cap(cap)
        self.step()

    @invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        living = [e.episode_id for e in self.door.leases]
        assert len(set(living)) == len(living)
        assert self.num_opened == len(living) + self.num_gone
        assert self.door.num_active == len(self.door.active())
        assert self.door.num_queued == len(self.door.queued())
        assert self.door.counters.admitted == self.num_admitted

    @invariant()
    def positions_are_one_to_n(self) -> None:
        places = self.door.places(self.now_s)
        assert [p.position for p in places] == list(range(1, len(places) + 1))


TestDoor = Door.TestCase
TestDoor.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class FailingPolicy(StaticCapAdmission):
    """Fails in the steps that are named."""

    control_interval_s = 0.0
    holds_turns = True

    def __init__(self, *steps: str) -> None:
        super().__init__(1)
        self._steps = steps

    def _fail_in(self, step: str) -> None:
        if step in self._steps:
            raise ZeroDivisionError(step)

    def decide(self, view: FleetView) -> AdmissionDecision:
        self._fail_in("decide")
        return super().decide(view)

    def control(self, view: FleetView) -> None:
        self._fail_in("control")

    def report(self, view: FleetView) -> AdmissionReport:
        self._fail_in("report")
        return super().report(view)

    def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
        self._fail_in("turn_hold_s")
        return 0.0


def door_of(policy: StaticCapAdmission) -> EpisodeRegistry:
    ids = (f"id-{n}" for n in itertools.count())
    return EpisodeRegistry(LeaseTable(TTL_S, "boot", lambda: next(ids)), policy)


@pytest.mark.parametrize("step", ["control", "report"])
def test_c1_a_policy_that_fails_keeps_nobody_from_being_told(step: str) -> None:
    door = door_of(FailingPolicy(step))
    door.open(EpisodeInfo("first"), 0.0)
    assert [type(e) for e in door.step(0.0)] == [AdmittedEvent]
    waiter = door.open(EpisodeInfo("waiter"), 5.0)
    door.leases.heartbeat(waiter, 9.0)

    events = door.step(10.0)

    assert [type(e) for e in events] == [RemovedEvent, AdmittedEvent]


def test_c1_an_expiry_is_told_though_the_policy_cannot_decide(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = FailingPolicy()
    door = door_of(policy)
    door.open(EpisodeInfo("dead"), 0.0)
    door.step(0.0)
    door.open(EpisodeInfo("waiter"), 5.0)
    policy._steps = ("decide",)

    events = [*door.step(10.0), *door.step(10.1)]

    assert [type(e) for e in events] == [RemovedEvent]
    assert "failed" in door.waiting_reason
    assert len(caplog.records) == 1, "once, not at every tick"
    policy._steps = ()
    assert [type(e) for e in door.step(10.2)] == [AdmittedEvent]


def test_a_turn_starts_though_the_policy_cannot_say_how_long_it_waits() -> None:
    door = door_of(FailingPolicy("turn_hold_s"))
    episode_id = door.open(EpisodeInfo("a"), 0.0).episode_id
    door.step(0.0)

    assert door.turn_hold_s(episode_id, 1.0) == 0.0


def test_a_policy_that_admits_fewer_than_nobody_admits_nobody() -> None:
    class Negative(StaticCapAdmission):
        def decide(self, view: FleetView) -> AdmissionDecision:
            return AdmissionDecision(-1, "no")

    door = door_of(Negative(1))
    for name in "abc":
        door.open(EpisodeInfo(name), 0.0)

    assert door.step(0.0) == []
