"""The hub's part in the brain tier, on a virtual clock."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import ContextLimitError, from_detail
from robot_sdk.messages import TokenUsage
from robot_sdk.telemetry import no_telemetry
from server.brain.interface import Finished
from server.config import EpisodesSection
from server.core.admission import FleetView, StaticCapAdmission
from server.core.leases import Attachment, EpisodeInfo, LeaseTable, Reference
from server.core.registry import EpisodeRegistry
from server.core.residency import EngineGauges, LedgerSnapshot, PrefixOutcome
from server.rpc.hub import EpisodeHub, LiveEpisode, TurnRecord
from server.rpc.mailbox import Mailbox

TRACE = common_pb2.TraceContext()
USAGE = TokenUsage(input_tokens=1000, cached_tokens=0, output_tokens=20, new_tokens=1000)


class Setup:
    """A hub with one slot; notes what its callbacks are told."""

    def __init__(
        self,
        policy: StaticCapAdmission | None = None,
        can_refresh: bool = False,
        **fields: Any,
    ) -> None:
        ids = (f"id-{n}" for n in itertools.count())
        self.clock = VirtualClock()
        self.ended: list[str] = []
        self.turns: list[tuple[PrefixOutcome, float]] = []
        self.refreshed: list[str] = []
        self.registry = EpisodeRegistry(
            LeaseTable(10.0, "boot", lambda: next(ids)), policy or StaticCapAdmission(1), **fields
        )
        self.hub = EpisodeHub(
            self.registry,
            EpisodesSection(),
            "boot",
            self.clock,
            no_telemetry(),
            on_episode_end=self.ended.append,
            max_context_tokens=lambda: 8192,
            engine_gauges=lambda: EngineGauges(
                pool_blocks=100, block_tokens=16, can_refresh=can_refresh
            ),
            refresh=self.refresh,
            on_turn=lambda outcome, latency_s: self.turns.append((outcome, latency_s)),
        )

    async def refresh(self, episode_id: str) -> bool:
        self.refreshed.append(episode_id)
        return True

    def open(self, name: str, uses_brain: bool = True) -> tuple[LiveEpisode, Attachment, Mailbox]:
        info = EpisodeInfo(name, robot_id=name, uses_brain=uses_brain, control_hz=20.0)
        return self.hub.open(info, TRACE)


def told(mailbox: Mailbox) -> list[episode_pb2.RunResponse]:
    messages = []
    while (message := mailbox.pop()) is not None:
        messages.append(message)
    return messages


def record(usage: TokenUsage | None = USAGE, dropped_turns: int = 0) -> TurnRecord:
    return TurnRecord("", "", (), Finished(usage=usage, dropped_turns=dropped_turns))


def test_d8_the_context_limit_ends_the_episode_tells_its_robot_why_and_frees_the_slot() -> None:
    setup = Setup()
    live, _, mailbox = setup.open("full")
    _, _, waiter = setup.open("waiter")
    told(mailbox), told(waiter)

    setup.hub.end_by_context_limit(live, ContextLimitError("8300 of 8192 tokens"))

    (revoked,) = told(mailbox)
    error = from_detail(revoked.revoked.error)
    assert isinstance(error, ContextLimitError)
    assert "8300 of 8192" in error.message
    assert [m.WhichOneof("message") for m in told(waiter)] == ["admitted"]
    assert setup.ended == [live.episode_id]


def test_d8_a_late_call_is_told_the_same_reason_and_a_second_end_changes_nothing() -> None:
    setup = Setup()
    live, _, _ = setup.open("full")
    setup.hub.end_by_context_limit(live, ContextLimitError("too long"))
    setup.hub.end_by_context_limit(live, ContextLimitError("too long"))

    with pytest.raises(ContextLimitError, match="context limit"):
        setup.registry.leases.authorise(Reference(live.episode_id, live.lease.secret, 1, "boot"))
    assert setup.registry.counters.ended == 1


@pytest.mark.parametrize("how", ["robot", "operator", "lease", "shutdown", "limit"])
def test_the_engine_hears_of_every_end_once(how: str) -> None:
    setup = Setup()
    live, attachment, _ = setup.open("a")

    if how == "robot":
        setup.hub.end_by_robot(attachment, episode_pb2.EndEpisode())
    elif how == "operator":
        setup.hub.end_by_operator(live.episode_id, "")
    elif how == "lease":
        setup.clock.advance(10.0)
        setup.hub.step()
    elif how == "limit":
        setup.hub.end_by_context_limit(live, ContextLimitError("too long"))
    setup.hub.end_all()
    setup.hub.step()

    assert setup.ended == [live.episode_id]


def test_an_episode_that_was_never_inside_is_no_end_for_the_engine() -> None:
    setup = Setup()
    setup.open("inside")
    waiting, _, _ = setup.open("waiting")

    setup.hub.end_by_operator(waiting.episode_id, "")

    assert setup.ended == []


def test_c1_an_engine_that_fails_at_an_end_keeps_no_slot() -> None:
    setup = Setup()

    def fail(_: str) -> None:
        raise RuntimeError("broken")

    setup.hub._on_episode_end = fail
    live, _, mailbox = setup.open("a")
    _, _, waiter = setup.open("waiter")
    told(mailbox), told(waiter)
    setup.hub.end_by_operator(live.episode_id, "")

    assert [m.WhichOneof("message") for m in told(mailbox)] == ["revoked"]
    assert [m.WhichOneof("message") for m in told(waiter)] == ["admitted"]


def test_an_episode_with_a_brain_is_told_the_longest_conversation() -> None:
    setup = Setup(StaticCapAdmission(2))
    limits = [
        told(setup.open(name, uses_brain)[2])[0].admitted.limits
        for name, uses_brain in (("brain", True), ("policy only", False))
    ]

    assert limits[0].max_context_tokens == 8192
    assert not limits[1].HasField("max_context_tokens")


def test_a_committed_turn_is_counted_and_timed() -> None:
    setup = Setup()
    live, _, _ = setup.open("a")
    setup.hub.turn_committed(live, record(), 1.0, latency_s=0.5)

    assert setup.turns == [(PrefixOutcome.FIRST, 0.5)]
    assert setup.registry.ledger.snapshot(1.0).working_set_blocks == 64


def test_a_turn_that_dropped_older_ones_is_a_rebuild() -> None:
    setup = Setup()
    live, _, _ = setup.open("a")
    setup.hub.turn_committed(live, record(), 1.0, latency_s=0.5)
    setup.hub.turn_committed(live, record(dropped_turns=3), 2.0, latency_s=0.5)

    assert setup.turns[-1][0] is PrefixOutcome.REBUILD


def test_c3_a_turn_that_commits_after_the_end_counts_nothing() -> None:
    setup = Setup()
    live, attachment, _ = setup.open("a")
    setup.hub.end_by_robot(attachment, episode_pb2.EndEpisode())
    setup.hub.turn_committed(live, record(), 1.0, latency_s=0.5)

    assert setup.turns == []
    assert setup.registry.ledger.snapshot(1.0).num_live == 0


def test_a_fault_in_counting_costs_the_robot_nothing(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    live, _, _ = setup.open("a")

    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    setup.hub._on_turn = fail
    setup.hub.turn_committed(live, record(), 1.0, latency_s=0.5)

    assert "is not counted" in caplog.text


def test_slack_comes_from_the_last_heartbeat_and_its_age() -> None:
    setup = Setup()
    live, attachment, _ = setup.open("a")
    assert setup.hub.slack_s(live) is None

    setup.hub.heartbeat(attachment, episode_pb2.RobotState(tool="pick", steps_left=60))
    setup.clock.advance(1.0)

    assert setup.hub.slack_s(live) == 2.0


class Keeping(StaticCapAdmission):
    """Wants every prefix touched that others have been in the way of."""

    def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int:
        return 0


def test_a_tick_has_prefixes_touched_and_the_ledger_told() -> None:
    setup = Setup(Keeping(2), can_refresh=True)
    (waiting, *_), (other, *_) = setup.open("waiting"), setup.open("other")

    async def scenario() -> None:
        setup.hub.tick()
        for live in (waiting, other):
            await setup.hub.hold_turn(live)
            setup.hub.turn_committed(live, record(), 0.0, latency_s=0.1)
        setup.clock.advance(1.0)
        setup.hub.tick()
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(scenario())

    assert waiting.episode_id in setup.refreshed
    assert setup.registry.ledger.totals.refreshes_found == len(setup.refreshed)


class Parking(StaticCapAdmission):
    """Lets every turn wait until it is told otherwise."""

    holds_turns = True
    parked = True

    def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
        return 0.001 if self.parked else 0.0


def test_a_parked_turn_waits_for_the_policy_and_not_for_ever() -> None:
    policy = Parking(1)
    setup = Setup(policy, max_turn_hold_s=5.0)
    live, _, _ = setup.open("a")

    async def scenario() -> list[tuple[bool, float]]:
        states = []
        for release in ("policy", "bound"):
            policy.parked = True
            turn = asyncio.create_task(setup.hub.hold_turn(live))
            for _ in range(3):
                await asyncio.sleep(0)
            was_done = turn.done()
            setup.clock.advance(2.0 if release == "policy" else 5.0)
            policy.parked = release == "bound"
            states.append((was_done, await asyncio.wait_for(turn, 5.0)))
        policy.parked = False
        states.append((False, await setup.hub.hold_turn(live)))
        return states

    assert asyncio.run(scenario()) == [(False, 2.0), (False, 5.0), (False, 0.0)]


def test_a_turn_that_failed_is_taken_to_run_no_longer() -> None:
    setup = Setup()
    live, _, _ = setup.open("a")
    distances = setup.registry.ledger._distances

    async def scenario() -> None:
        await setup.hub.hold_turn(live)
        setup.hub.turn_committed(live, record(), 0.0, latency_s=0.1)
        await setup.hub.hold_turn(live)

    asyncio.run(scenario())
    assert distances.held_blocks > 0

    setup.hub.turn_failed(live)

    assert distances.held_blocks == 0


def test_an_alert_is_logged_when_it_comes_up_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    setup = Setup()
    live, attachment, _ = setup.open("a")
    miss = TokenUsage(input_tokens=1020, cached_tokens=0, output_tokens=1, new_tokens=10)
    setup.hub.turn_committed(live, record(), 0.0, latency_s=0.1)
    for _ in range(20):
        setup.hub.turn_committed(live, record(miss), 0.0, latency_s=0.1)
    for _ in range(130):
        setup.clock.advance(1.0)
        setup.hub.heartbeat(attachment, None)
        setup.hub.step()

    lines = [r.getMessage() for r in caplog.records if "working-set-thrash" in r.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("working-set-thrash: full-prefix hit 0.00 of 20 turns")
    assert lines[1] == "working-set-thrash is over"
    assert setup.registry.report.alerts == ()
