"""Events of a turn between worker and call."""

from __future__ import annotations

import asyncio

import pytest

from robot_sdk.errors import BadModelOutputError, WorkerUnavailableError
from server.brain.interface import Event, Finished, Reasoning, Text
from server.brain.turn_events import TurnEvents


def read(events: TurnEvents) -> list[Event]:
    async def all_of() -> list[Event]:
        return [event async for event in events]

    return asyncio.run(all_of())


def test_text_that_nobody_has_taken_is_one_event() -> None:
    events = TurnEvents(100)
    for event in (Text("a"), Text("b"), Reasoning("c"), Text("d"), Finished()):
        events.put(event)
    events.end()

    assert read(events) == [Text("ab"), Reasoning("c"), Text("d"), Finished()]


def test_an_error_comes_behind_what_was_said_before_it() -> None:
    events = TurnEvents(100)
    events.put(Text("a"))
    events.end(WorkerUnavailableError("gone"))
    heard: list[Event] = []

    async def listen() -> None:
        async for event in events:
            heard.append(event)

    with pytest.raises(WorkerUnavailableError, match="gone"):
        asyncio.run(listen())
    assert heard == [Text("a")]


def test_a_turn_that_writes_too_much_ends_with_an_error_and_takes_no_more() -> None:
    events = TurnEvents(10)
    events.put(Text("0123456789"))
    events.put(Text("x"))
    events.put(Text("y"))
    events.end()

    with pytest.raises(BadModelOutputError, match="max_output_bytes"):
        read(events)
