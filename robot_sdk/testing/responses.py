"""What a fake server has said on one stream and a fake client has not read yet."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Generic, TypeVar

from robot_sdk.errors import RobotSdkError

T = TypeVar("T")


class _End:
    """Last item of a stream that ended well."""


class Responses(Generic[T]):
    """One stream's messages, then its end or its error. Any number of writers, one reader."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[T | RobotSdkError | _End] = queue.SimpleQueue()
        self.is_over = False

    def put(self, item: T) -> None:
        """Say something. Ignored once the stream is over."""
        if not self.is_over:
            self._items.put(item)

    def finish(self) -> None:
        """End the stream well."""
        if not self.is_over:
            self.is_over = True
            self._items.put(_End())

    def fail(self, error: RobotSdkError) -> None:
        """Break the stream."""
        if not self.is_over:
            self.is_over = True
            self._items.put(error)

    def __iter__(self) -> Iterator[T]:
        while True:
            item = self._items.get()
            if isinstance(item, RobotSdkError):
                raise item
            if isinstance(item, _End):
                return
            yield item
