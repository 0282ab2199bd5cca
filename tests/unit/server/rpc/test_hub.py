"""The hub on a virtual clock: what robots are told, and that faults never keep a slot."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import DrainingError, FencedError, LeaseExpiredError, from_detail
from robot_sdk.telemetry import no_telemetry
from server.config import EpisodesSection
from server.core.admission import StaticCapAdmission
from server.core.leases import Attachment, EpisodeInfo, LeaseTable
from server.core.registry import EpisodeRegistry
from server.rpc.hub import EpisodeHub
from server.rpc.mailbox import Mailbox

TRACE = common_pb2.TraceContext()
TTL_S = 10.0


class FaultyTelemetry:
    """Raises whenever it is told something."""

    def record_span(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("telemetry is broken")


class Setup:
    def __init__(self, cap: int = 1, telemetry: Any = None) -> None:
        ids = (f"id-{n}" for n in itertools.count())
        self.clock = VirtualClock()
        self.registry = EpisodeRegistry(
            LeaseTable(TTL_S, "boot", lambda: next(ids)), StaticCapAdmission(cap)
        )
        self.hub = EpisodeHub(
            self.registry, EpisodesSection(), "boot", self.clock, telemetry or no_telemetry()
        )

    def open(self, name: str) -> tuple[Attachment, Mailbox]:
        _, attachment, mailbox = self.hub.open(EpisodeInfo(name, robot_id=name), TRACE)
        return attachment, mailbox


def told(mailbox: Mailbox) -> list[episode_pb2.RunResponse]:
    """What waits in a mailbox now."""

    messages = []
    while (message := mailbox.pop()) is not None:
        messages.append(message)
    return messages


def kinds(mailbox: Mailbox) -> list[str | None]:
    return [message.WhichOneof("message") for message in told(mailbox)]


def test_the_waiter_is_told_in_the_step_that_frees_the_slot() -> None:
    setup = Setup()
    _, first = setup.open("first")
    attachment, second = setup.open("second")
    assert (kinds(first), kinds(second)) == (["admitted"], ["queued"])

    setup.clock.advance(9.0)
    setup.hub.heartbeat(attachment, None)
    setup.clock.advance(1.0)
    setup.hub.step()

    (revoked,) = told(first)
    assert isinstance(from_detail(revoked.revoked.error), LeaseExpiredError)
    assert kinds(second) == ["admitted"]


def test_a_place_is_told_again_only_when_it_has_changed() -> None:
    setup = Setup(cap=0)
    _, mailbox = setup.open("a")
    assert kinds(mailbox) == ["queued"]

    setup.clock.advance(1.0)
    setup.hub.step()
    assert kinds(mailbox) == []

    setup.open("b")
    (message,) = told(mailbox)
    assert (message.queued.position, message.queued.num_waiting) == (1, 2)


def test_a_crowd_at_the_door_is_not_told_of_every_one_of_it() -> None:
    setup = Setup(cap=0)
    mailboxes = [setup.open(f"robot-{number}")[1] for number in range(200)]

    num_told = [len(told(mailbox)) for mailbox in mailboxes]

    assert num_told[-1] == 1
    assert sum(num_told) < 200 * 20
    last = setup.hub._live[setup.registry.queued()[0].episode_id].told_place
    assert last is not None
    assert last.num_waiting > 200 * 7 // 8


def test_a_reopened_stream_is_told_its_place_and_the_old_one_is_fenced() -> None:
    setup = Setup(cap=0)
    _, old = setup.open("a")
    told(old)

    _, new = setup.open("a")

    (revoked,) = told(old)
    assert isinstance(from_detail(revoked.revoked.error), FencedError)
    assert kinds(new) == ["queued"]


def test_a_drain_sends_waiters_away_and_tells_those_inside() -> None:
    setup = Setup()
    _, inside = setup.open("inside")
    _, outside = setup.open("outside")
    told(inside), told(outside)

    setup.hub.begin_drain(30.0, "update")

    (draining,) = told(inside)
    assert draining.draining.deadline_s == 30.0
    (revoked,) = told(outside)
    assert isinstance(from_detail(revoked.revoked.error), DrainingError)


def test_the_log_says_who_ended_an_episode_and_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    setup = Setup(cap=2)
    with_reason, _ = setup.open("first")
    without, _ = setup.open("second")

    setup.hub.end_by_robot(with_reason, episode_pb2.EndEpisode(reason="gave_up: it is too far"))
    setup.hub.end_by_robot(without, episode_pb2.EndEpisode())

    ends = [r.getMessage().partition(": ")[2] for r in caplog.records if "ended" in r.getMessage()]
    assert ends == ["ended by its robot: gave_up: it is too far", "ended by its robot"]


@pytest.mark.parametrize("how", ["robot", "operator", "lease"])
def test_c1_a_fault_while_ending_keeps_no_slot_and_no_news(how: str) -> None:
    setup = Setup(telemetry=FaultyTelemetry())
    attachment, first = setup.open("first")
    waiter, second = setup.open("second")
    told(first), told(second)

    if how == "robot":
        setup.hub.end_by_robot(attachment, episode_pb2.EndEpisode())
    elif how == "operator":
        setup.hub.end_by_operator(attachment.episode_id, "")
    else:
        setup.clock.advance(9.0)
        setup.hub.heartbeat(waiter, None)
        setup.clock.advance(1.0)
    setup.hub.step()

    assert told(first)
    assert kinds(second) == ["admitted"]
    assert setup.registry.num_active == 1


def test_c1_a_robot_that_cannot_be_told_of_its_admission_keeps_no_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = Setup(cap=0)
    setup.open("unlucky")
    _, waiter = setup.open("waiter")
    told(waiter)
    tell = setup.hub._tell_admitted

    def faulty(live: Any) -> None:
        if live.lease.info.robot_id == "unlucky":
            raise RuntimeError("no words")
        tell(live)

    monkeypatch.setattr(setup.hub, "_tell_admitted", faulty)
    setup.registry.set_cap(1)
    setup.hub.step()
    setup.hub.step()

    assert kinds(waiter) == ["admitted"]
    assert setup.registry.num_active == 1


def test_a_shutdown_tells_everybody_even_with_broken_telemetry() -> None:
    setup = Setup(cap=1, telemetry=FaultyTelemetry())
    mailboxes = [setup.open(name)[1] for name in "abc"]
    for mailbox in mailboxes:
        told(mailbox)

    setup.hub.end_all()

    assert [kinds(mailbox) for mailbox in mailboxes] == [["revoked"]] * 3
    assert len(setup.registry.leases) == 0


def test_no_secret_shows_in_what_is_logged() -> None:
    setup = Setup()
    attachment, _ = setup.open("a")
    episode = setup.registry.leases.get(attachment.episode_id)
    assert episode is not None

    assert episode.secret not in repr(episode)


def test_a_server_that_stood_still_ends_nobody_for_its_own_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        setup = Setup()
        attachment, mailbox = setup.open("a")
        ticker = asyncio.create_task(setup.hub.tick_forever())
        await asyncio.sleep(0)
        told(mailbox)

        setup.clock.advance(3600.0)
        setup.hub.step()
        assert kinds(mailbox) == []
        assert setup.hub.heartbeat(attachment, None) == TTL_S

        # While it runs, a silent robot has its lease time and no more.
        for _ in range(98):
            setup.clock.advance(TTL_S / 100)
            setup.hub.step()
        assert kinds(mailbox) == []
        setup.clock.advance(TTL_S / 25)
        setup.hub.step()
        assert kinds(mailbox) == ["revoked"]
        ticker.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())

    assert [record.getMessage() for record in caplog.records] == [
        "the server stood still for 3599.9 s; leases last as much longer"
    ]
