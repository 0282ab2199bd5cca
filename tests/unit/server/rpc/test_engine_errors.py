"""What an engine may say of a turn, and what is the server's to say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from robot_sdk.errors import (
    BadModelOutputError,
    ContextLimitError,
    EpisodeEndedError,
    EpisodeLostError,
    InternalServerError,
    LeaseExpiredError,
    RobotSdkError,
    UnauthenticatedError,
)
from robot_sdk.messages import Sampling
from server.brain.interface import Event, Text, Turn
from server.rpc.brain_service import _events

TURN = Turn("e", 0, (), (), Sampling())


class Raising:
    """An engine that fails behind its first word."""

    def __init__(self, error: RobotSdkError) -> None:
        self._error = error

    async def decide(self, turn: Turn) -> AsyncGenerator[Event, None]:
        yield Text("a")
        raise self._error


async def listen(engine: Any) -> list[Event]:
    return [event async for event in _events(engine, TURN)]


@pytest.mark.parametrize("kind", [UnauthenticatedError, LeaseExpiredError, EpisodeEndedError])
def test_an_engine_cannot_end_an_episode_in_the_servers_name(
    kind: type[RobotSdkError], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(InternalServerError) as raised:
        asyncio.run(listen(Raising(kind("secret words"))))

    assert "secret words" not in str(raised.value)
    assert "secret words" in caplog.text


@pytest.mark.parametrize("kind", [BadModelOutputError, ContextLimitError, EpisodeLostError])
def test_what_an_engine_says_of_its_turn_reaches_the_robot(kind: type[RobotSdkError]) -> None:
    with pytest.raises(kind, match="why"):
        asyncio.run(listen(Raising(kind("why"))))
