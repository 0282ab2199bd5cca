"""Does the prefix refreshes that the registry asks for, beside the turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from robot_sdk.clock import Clock
from server.core.registry import EpisodeRegistry

_log = logging.getLogger(__name__)

#: A refresh is one step of the engine, or the computation of a prefix that was lost: some seconds
#: for 200k tokens. One that takes longer waits behind turns that have all the places.
TIMEOUT_S = 30.0
#: After one that took longer none begins for so long. Given up in the middle it has cost the engine
#: the computation and helped nobody, and the next one would fare no better.
REST_S = 120.0


async def nothing_to_refresh(episode_id: str) -> None:
    """Where there is no brain."""


class RefreshDriver:
    """Ticked on the event loop. No fault of a refresh reaches whoever ticks.

    Args:
        registry: Says what is due, and is told of every end once.
        refresh: Of BrainEngine.
        clock: Of the registry's times.
    """

    def __init__(
        self,
        registry: EpisodeRegistry,
        refresh: Callable[[str], Awaitable[bool | None]],
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._refresh = refresh
        self._clock = clock
        self._began_s: dict[asyncio.Task[bool | None], float] = {}
        self._stopped = False
        self._rests_until_s: float | None = None
        self._told_error = ""

    def tick(self) -> None:
        """Begin what is due, and give up what takes too long. A fault that repeats is told once."""
        now_s = self._clock.now_s()
        for task, began_s in self._began_s.items():
            if now_s - began_s >= TIMEOUT_S:
                self._rests_until_s = now_s + REST_S
                task.cancel()
        if self._stopped or self._registry.drain is not None:
            return
        if self._rests_until_s is not None and now_s < self._rests_until_s:
            return
        try:
            due = self._registry.due_refreshes(now_s)
        except Exception:
            _log.exception("what is to be refreshed could not be chosen")
            return
        for episode_id in due:
            task = asyncio.get_running_loop().create_task(self._work(episode_id))
            self._began_s[task] = now_s
            task.add_done_callback(partial(self._done, episode_id))

    def stop(self) -> None:
        """Begin no more, and give up what runs."""
        self._stopped = True
        for task in self._began_s:
            task.cancel()

    async def _work(self, episode_id: str) -> bool | None:
        return await self._refresh(episode_id)

    def _done(self, episode_id: str, task: asyncio.Task[bool | None]) -> None:
        """A callback and not the end of `_work`: a task that is cancelled at once never runs."""
        del self._began_s[task]
        found = None
        if not task.cancelled():
            error = task.exception()
            if error is None:
                found = task.result()
            elif repr(error) != self._told_error:
                # A fault of the engine meets every refresh, up to two a second.
                self._told_error = repr(error)
                _log.error("a prefix could not be refreshed", exc_info=error)
        try:
            self._registry.refresh_done(episode_id, found, self._clock.now_s())
        except Exception:
            _log.exception("a refresh is not counted")
