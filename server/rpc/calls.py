"""Calls that are under way, so that the server can stop them with a reason.

A handler sends its initial metadata before it can be stopped. grpc.aio counts them as sent only
when the first write has finished; a handler stopped in the middle of it would send them a second
time with its status, which gRPC refuses, and the client would never hear that the call is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from robot_sdk.errors import RobotSdkError


class ActiveCall:
    """One handler that is running. `stop` makes it fail with an error of the server's choice."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._error: RobotSdkError | None = None
        self._done = False

    def stop(self, error: RobotSdkError) -> None:
        """Without effect once the call has finished or was stopped before."""
        if self._done or self._error is not None or self._task is None:
            return
        self._error = error
        self._task.cancel()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Wraps the body of the handler; turns the cancellation by `stop` into its error."""
        try:
            yield
        except asyncio.CancelledError:
            if self._error is None or self._task is None:
                raise
            self._task.uncancel()
            raise self._error from None
        finally:
            self._done = True
