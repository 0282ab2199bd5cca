from __future__ import annotations

import asyncio

from robot_sdk.clock import SYSTEM_CLOCK
from server.brain.openai_engine.endpoint import Endpoint
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
