from __future__ import annotations

import itertools

import pytest

from robot_sdk.errors import (
    EpisodeEndedError,
    EpisodeLostError,
    EpisodeUnknownError,
    FencedError,
    LeaseExpiredError,
    UnauthenticatedError,
)
from server.core.leases import Attachment, EndCause, EpisodeInfo, LeaseTable, Phase, Reference


@pytest.fixture
def table() -> LeaseTable:
    ids = (f"id-{n}" for n in itertools.count())
    return LeaseTable(ttl_s=10.0, boot_id="boot", make_id=lambda: next(ids))


def admitted(table: LeaseTable, open_id: str = "a", now_s: float = 0.0) -> Reference:
    attachment = table.open(EpisodeInfo(open_id), now_s)
    episode = table.admit(attachment.episode_id, now_s)
    return Reference(episode.episode_id, episode.secret, episode.epoch, "boot")


def test_opening_twice_joins_the_same_place(table: LeaseTable) -> None:
    first = table.open(EpisodeInfo("a"), 0.0)
    second = table.open(EpisodeInfo("a"), 1.0)

    assert first.episode_id == second.episode_id
    assert len(table) == 1


def test_the_same_open_id_of_two_tenants_is_two_episodes(table: LeaseTable) -> None:
    first = table.open(EpisodeInfo("a", tenant="x"), 0.0)
    second = table.open(EpisodeInfo("a", tenant="y"), 0.0)

    assert first.episode_id != second.episode_id


def test_reopening_fences_the_older_stream(table: LeaseTable) -> None:
    first = table.open(EpisodeInfo("a"), 0.0)
    second = table.open(EpisodeInfo("a"), 0.0)

    with pytest.raises(FencedError):
        table.heartbeat(first, 1.0)
    assert table.heartbeat(second, 1.0) == 10.0


def test_resume_raises_the_epoch_and_fences_calls_of_the_older_one(table: LeaseTable) -> None:
    reference = admitted(table)

    table.resume(reference, 1.0)

    with pytest.raises(FencedError, match="newer stream"):
        table.authorise(reference)
    newer = Reference(reference.episode_id, reference.secret, 2, "boot")
    assert table.authorise(newer).epoch == 2


def test_reopening_an_admitted_episode_counts_as_a_resume(table: LeaseTable) -> None:
    reference = admitted(table)

    table.open(EpisodeInfo("a"), 1.0)

    episode = table.get(reference.episode_id)
    assert episode is not None
    assert (episode.phase, episode.epoch) == (Phase.ADMITTED, 2)


def test_a_lease_expires_one_ttl_after_the_last_heartbeat(table: LeaseTable) -> None:
    attachment = table.open(EpisodeInfo("a"), 0.0)
    table.heartbeat(attachment, 3.0)

    assert table.expired(12.999) == []
    assert [e.episode_id for e in table.expired(13.0)] == [attachment.episode_id]


def test_losing_the_stream_does_not_end_the_lease(table: LeaseTable) -> None:
    attachment = table.open(EpisodeInfo("a"), 0.0)

    table.detach(attachment)

    assert len(table) == 1
    assert not next(iter(table)).connected


def test_a_fenced_stream_that_goes_does_not_disconnect_the_newer_one(table: LeaseTable) -> None:
    first = table.open(EpisodeInfo("a"), 0.0)
    table.open(EpisodeInfo("a"), 0.0)

    table.detach(first)

    assert next(iter(table)).connected


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (EndCause.ENDED_BY_ROBOT, EpisodeEndedError),
        (EndCause.ENDED_BY_OPERATOR, EpisodeEndedError),
        (EndCause.LEASE_EXPIRED, LeaseExpiredError),
    ],
)
def test_c3_a_late_message_names_the_end_and_never_resurrects(
    table: LeaseTable, cause: EndCause, error: type[Exception]
) -> None:
    reference = admitted(table)
    table.end(reference.episode_id, cause)

    for late in (
        lambda: table.authorise(reference),
        lambda: table.resume(reference, 1.0),
        lambda: table.heartbeat(Attachment(reference.episode_id, 1), 1.0),
        lambda: table.end(reference.episode_id, cause),
        lambda: table.open(EpisodeInfo("a"), 1.0),
    ):
        with pytest.raises(error):
            late()
    assert len(table) == 0


def test_an_open_id_that_only_ever_queued_may_queue_again(table: LeaseTable) -> None:
    first = table.open(EpisodeInfo("a"), 0.0)
    table.end(first.episode_id, EndCause.LEASE_EXPIRED)

    second = table.open(EpisodeInfo("a"), 20.0)

    assert second.episode_id != first.episode_id


def test_ids_are_never_given_out_twice_even_if_the_source_repeats() -> None:
    source = iter(["x", "secret-1", "x", "x", "y", "secret-2"])
    table = LeaseTable(10.0, "boot", lambda: next(source))
    first = table.open(EpisodeInfo("a"), 0.0)
    table.end(first.episode_id, EndCause.ENDED_BY_ROBOT)

    second = table.open(EpisodeInfo("b"), 0.0)

    assert (first.episode_id, second.episode_id) == ("x", "y")


def test_a_reference_of_an_earlier_process_is_episode_lost(table: LeaseTable) -> None:
    reference = admitted(table)
    stale = Reference(reference.episode_id, reference.secret, 1, "another boot")

    with pytest.raises(EpisodeLostError):
        table.authorise(stale)


def test_a_wrong_secret_is_refused_before_the_epoch_is_told(table: LeaseTable) -> None:
    reference = admitted(table)

    with pytest.raises(UnauthenticatedError):
        table.authorise(Reference(reference.episode_id, "wrong é", 7, "boot"))


def test_a_queued_episode_cannot_be_worked_on(table: LeaseTable) -> None:
    attachment = table.open(EpisodeInfo("a"), 0.0)
    episode = table.get(attachment.episode_id)
    assert episode is not None

    with pytest.raises(EpisodeUnknownError, match="not been admitted"):
        table.authorise(Reference(episode.episode_id, episode.secret, 0, "boot"))


def test_tombstones_are_bounded_and_forgotten_ids_are_unknown() -> None:
    ids = (f"id-{n}" for n in itertools.count())
    table = LeaseTable(10.0, "boot", lambda: next(ids), max_tombstones=2)
    references = [admitted(table, open_id=name) for name in "abc"]
    for reference in references:
        table.end(reference.episode_id, EndCause.ENDED_BY_ROBOT)

    with pytest.raises(EpisodeUnknownError):
        table.authorise(references[0])
    with pytest.raises(EpisodeEndedError):
        table.authorise(references[2])


def test_an_extension_gives_back_what_a_lease_had_and_never_more_than_a_whole_one(
    table: LeaseTable,
) -> None:
    old = table.open(EpisodeInfo("old"), 0.0).episode_id
    new = table.open(EpisodeInfo("new"), 6.0).episode_id
    heard = table.open(EpisodeInfo("heard"), 0.0)

    table.heartbeat(heard, 40.0)
    table.extend(32.0, 40.0)

    until_s = {episode.episode_id: episode.lease_until_s for episode in table}
    assert until_s == {old: 42.0, new: 48.0, heard.episode_id: 50.0}
