"""What a fake server has said on one stream and a fake client has not read yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import DeadlineExceededError, RobotSdkError

T = TypeVar("T")


class Responses(Generic[T]):
    """One stream's messages, then its end or its error. Any number of writers, one reader."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[T] = deque()
        self._error: RobotSdkError | None = None
        self.is_over = False

    def put(self, item: T) -> None:
        """Say something. Ignored once the stream is over."""
        with self._changed:
            if not self.is_over:
                self._items.append(item)
                self._changed.notify_all()

    def finish(self) -> None:
        """End the stream well."""
        self._end(None)

    def fail(self, error: RobotSdkError) -> None:
        """Break the stream."""
        self._end(error)

    def read(self, timeout_s: float | None = None) -> Iterator[T]:
        """The messages in order. The whole reading may take `timeout_s` of real time.

        Raises:
            RobotSdkError: The stream broke.
            DeadlineExceededError: It took too long; the stream is broken off.
        """
        end_s = None if timeout_s is None else SYSTEM_CLOCK.now_s() + timeout_s
        while True:
            with self._changed:
                while not self._items and not self.is_over:
                    remaining_s = None if end_s is None else end_s - SYSTEM_CLOCK.now_s()
                    if remaining_s is not None and remaining_s <= 0:
                        self._end(DeadlineExceededError("the deadline of the call passed"))
                        break
                    SYSTEM_CLOCK.wait(self._changed, remaining_s)
                if not self._items:
                    if self._error is not None:
                        raise self._error
                    return
                item = self._items.popleft()
            yield item

    def __iter__(self) -> Iterator[T]:
        return self.read()

    def _end(self, error: RobotSdkError | None) -> None:
        with self._changed:
            if not self.is_over:
                self.is_over = True
                self._error = error
                self._changed.notify_all()
