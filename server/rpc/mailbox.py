"""What one Run stream still has to be told.

At most one message of a kind waits: a newer status replaces the older one, so a client that does
not read costs a handful of messages and no more.
"""

from __future__ import annotations

import asyncio

from robot_sdk.api.v1 import episode_pb2


class Mailbox:
    """Filled by anybody on the event loop, emptied by the one stream that owns it."""

    def __init__(self) -> None:
        self._messages: dict[str, episode_pb2.RunResponse] = {}
        self._news = asyncio.Event()
        self._finished = False
        self._error: BaseException | None = None

    def put(self, message: episode_pb2.RunResponse) -> None:
        """Add a message, in place of one of its kind that has not been sent. Not after `finish`."""
        if self._finished:
            return
        kind = message.WhichOneof("message")
        assert kind is not None
        if kind == "admitted":
            self._messages.pop("queued", None)
        self._messages[kind] = message
        self._news.set()

    def finish(
        self,
        last: episode_pb2.RunResponse | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Nothing comes after this: the stream ends once it has sent what waits, or with `error`.

        The first call counts.
        """
        if self._finished:
            return
        if last is not None:
            self.put(last)
        self._finished = True
        self._error = error
        self._news.set()

    async def next(self) -> episode_pb2.RunResponse | None:
        """The next message; None at the end. Raises the error that `finish` was given."""
        while (message := self.pop()) is None:
            if self._error is not None:
                raise self._error
            if self._finished:
                return None
            self._news.clear()
            await self._news.wait()
        return message

    def pop(self) -> episode_pb2.RunResponse | None:
        """The oldest message that waits now; None if none does."""
        return self._messages.pop(next(iter(self._messages))) if self._messages else None
