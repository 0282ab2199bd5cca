from __future__ import annotations

import asyncio

import pytest

from robot_sdk.api.v1.episode_pb2 import Admitted, Ended, HeartbeatAck, Queued, Revoked, RunResponse
from server.rpc.mailbox import Mailbox


def drained(mailbox: Mailbox) -> list[RunResponse]:
    async def read() -> list[RunResponse]:
        messages = []
        while (message := await mailbox.next()) is not None:
            messages.append(message)
        return messages

    return asyncio.run(read())


def test_a15_a_reader_that_stalls_finds_the_newest_of_each_kind() -> None:
    mailbox = Mailbox()
    for sequence in range(1000):
        mailbox.put(RunResponse(heartbeat_ack=HeartbeatAck(sequence=sequence)))
        mailbox.put(RunResponse(queued=Queued(position=sequence)))
    mailbox.finish()

    messages = drained(mailbox)

    assert [m.WhichOneof("message") for m in messages] == ["heartbeat_ack", "queued"]
    assert messages[0].heartbeat_ack.sequence == 999


def test_a_place_in_the_queue_is_no_news_after_admission() -> None:
    mailbox = Mailbox()
    mailbox.put(RunResponse(queued=Queued(position=1)))
    mailbox.put(RunResponse(admitted=Admitted(epoch=1)))
    mailbox.finish()

    assert [m.WhichOneof("message") for m in drained(mailbox)] == ["admitted"]


def test_the_end_is_told_once_and_last() -> None:
    mailbox = Mailbox()
    mailbox.finish(RunResponse(ended=Ended()))
    mailbox.finish(RunResponse(revoked=Revoked()))
    mailbox.put(RunResponse(heartbeat_ack=HeartbeatAck()))

    assert [m.WhichOneof("message") for m in drained(mailbox)] == ["ended"]


def test_an_error_comes_after_what_waits() -> None:
    mailbox = Mailbox()
    mailbox.put(RunResponse(queued=Queued(position=1)))
    mailbox.finish(error=KeyError("gone"))

    async def read() -> str | None:
        first = await mailbox.next()
        assert first is not None
        with pytest.raises(KeyError):
            await mailbox.next()
        return first.WhichOneof("message")

    assert asyncio.run(read()) == "queued"
