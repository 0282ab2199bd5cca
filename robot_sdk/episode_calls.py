"""The calls that live inside one episode, and what ends them together."""

from __future__ import annotations

import os
import threading
from typing import Protocol

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import RobotSdkError
from robot_sdk.process import check_process


class Cancellable(Protocol):
    """A call that can be broken off from any thread."""

    def cancel(self) -> None: ...


class EpisodeCalls:
    """Knows every running call of an episode; when the episode is over, cancels all of them.

    A call that is added afterwards is cancelled at once, so that none slips through.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._pid = os.getpid()
        self._calls: set[Cancellable] = set()
        self._over: RobotSdkError | None = None

    @property
    def over(self) -> RobotSdkError | None:
        """Why the episode is over; None while it goes on."""
        return self._over

    def check(self) -> None:
        """Raise the reason if the episode is over, or if this is a forked process."""
        check_process(self._pid)
        if self._over is not None:
            raise self._over

    def pause(self, duration_s: float) -> None:
        """Sleep between two tries, in real time; raise the reason once the episode is over."""
        until_s = SYSTEM_CLOCK.now_s() + duration_s
        with self._lock:
            while self._over is None:
                remaining_s = until_s - SYSTEM_CLOCK.now_s()
                if remaining_s <= 0:
                    return
                SYSTEM_CLOCK.wait(self._lock, remaining_s)
        self.check()

    def add(self, call: Cancellable) -> None:
        """Watch over a call.

        Raises:
            RobotSdkError: The episode is over; the call has been cancelled.
        """
        with self._lock:
            over = self._over
            if over is None:
                self._calls.add(call)
        if over is not None:
            call.cancel()
            raise over

    def remove(self, call: Cancellable) -> None:
        """The call has ended."""
        with self._lock:
            self._calls.discard(call)

    def stop(self, reason: RobotSdkError) -> None:
        """The episode is over. The first reason counts."""
        with self._lock:
            if self._over is not None:
                return
            self._over = reason
            calls = list(self._calls)
            self._calls.clear()
            self._lock.notify_all()
        for call in calls:
            call.cancel()
