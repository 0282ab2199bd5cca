from __future__ import annotations

import asyncio
import socket

import pytest

from robot_sdk.clock import SYSTEM_CLOCK
from server.brain.openai_engine.endpoint import Endpoint, UnreachableError
from server.sections.openai import OpenAiSection


class Flood:
    """A response of which more has always come already."""

    content_type = "text/event-stream"

    @property
    def content(self):
        return self

    async def readany(self):
        return b"data: x\n\n"


def test_an_endpoint_that_sends_without_pause_does_not_keep_the_event_loop_to_itself():
    async def run():
        endpoint = Endpoint(OpenAiSection(base_url="http://none/v1"), None, SYSTEM_CLOCK)
        others = []
        asyncio.get_running_loop().call_soon(others.append, "ran")
        events = endpoint._events(Flood())
        for _ in range(100):
            assert await anext(events) == b"x"
        await events.aclose()
        return list(others)

    assert asyncio.run(run()) == ["ran"]


def test_a_refused_connection_is_told_without_words_of_tls():
    async def ask(port):
        section = OpenAiSection(base_url=f"http://127.0.0.1:{port}/v1")
        endpoint = Endpoint(section, None, SYSTEM_CLOCK)
        await endpoint.open()
        try:
            await endpoint.models()
        finally:
            await endpoint.close()

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(UnreachableError) as raised:
            asyncio.run(ask(port))

    assert str(raised.value) == f"no connection to 127.0.0.1:{port}: Connection refused"
