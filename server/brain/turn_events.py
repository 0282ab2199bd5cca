"""What a turn says, on its way from a worker process to the call that asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from robot_sdk.errors import BadModelOutputError, RobotSdkError
from server.brain.checks import event_bytes
from server.brain.interface import Event, Reasoning, Text


class TurnEvents:
    """The events of one turn, in order, and its end.

    Events that nobody has taken yet are merged, text to text, so that a slow reader costs the
    length of the text and not a record per token.

    Args:
        max_output_bytes: A turn that writes more ends with an error; its reader then cancels it.
    """

    def __init__(self, max_output_bytes: int) -> None:
        self._max_output_bytes = max_output_bytes
        self._num_bytes = 0
        self._events: deque[Event] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self._error: RobotSdkError | None = None

    def put(self, event: Event) -> None:
        """Take an event. Without effect after the end."""
        if self._ended:
            return
        self._num_bytes += event_bytes(event)
        if self._num_bytes > self._max_output_bytes:
            self.end(
                BadModelOutputError(
                    "the brain wrote more than brain.max_output_bytes in one turn",
                    value=self._num_bytes,
                    allowed=(f"<= {self._max_output_bytes}",),
                )
            )
            return
        last = self._events[-1] if self._events else None
        if isinstance(event, (Text, Reasoning)) and type(last) is type(event):
            self._events[-1] = type(event)(last.text + event.text)
        else:
            self._events.append(event)
        self._news.set()

    def end(self, error: RobotSdkError | None = None) -> None:
        """No more events follow; `error` is raised to the reader behind those it has not taken."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._news.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._ended:
                if self._error is not None:
                    raise self._error
                return
            self._news.clear()
            await self._news.wait()
