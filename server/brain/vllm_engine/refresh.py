"""Touches prefixes in vLLM's cache, inside the worker process.

A request of one token on the front of a conversation finds its blocks in the cache, and when it
ends they are the youngest of the pool. It is no turn: nothing of it becomes part of a transcript,
and no turn waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from functools import partial
from typing import Any

from server.brain.interface import EngineInfo
from server.brain.vllm_engine.episodes import HostedEpisodes
from server.brain.vllm_engine.generation import engine_input, generate
from server.brain.vllm_engine.seen_prefix import touch_of
from server.worker.stream import FrameStream

_log = logging.getLogger(__name__)

#: Before every turn: it costs one step, and what it is to save may be dropped for the next turn.
_FIRST = 0
_ONE_TOKEN = {"max_tokens": 1, "temperature": 0.0, "detokenize": False}


class PrefixRefresher:
    """Answers every `refresh` frame with one `refreshed`, also for one that was cancelled.

    Args:
        engine: vLLM's AsyncLLM.
        info: What was told of it; its block size and its snapshots.
        episodes: Of the worker.
        image_token_id: Placeholder of a picture; None: the model takes none.
        stream: To the front end.
    """

    def __init__(
        self,
        engine: Any,
        info: EngineInfo,
        episodes: HostedEpisodes,
        image_token_id: int | None,
        stream: FrameStream,
    ) -> None:
        self._engine = engine
        self._info = info
        self._episodes = episodes
        self._image_token_id = image_token_id
        self._stream = stream
        self._tasks: dict[int, asyncio.Task[bool | None]] = {}
        self._told_error = ""

    def begin(self, number: int, episode_id: str) -> None:
        """Touch the prefix of an episode."""
        work = self._refresh(number, episode_id)
        task = self._tasks[number] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(partial(self._done, number))

    def cancel(self, number: int) -> None:
        """Give a refresh up. Without effect if it is done."""
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    async def _refresh(self, number: int, episode_id: str) -> bool | None:
        """Whether the whole reusable prefix was still cached; None: there is nothing to touch."""
        episode = self._episodes.get(episode_id)
        block_tokens = self._info.block_tokens
        if episode is None or episode.seen is None or block_tokens is None:
            return None
        touch = touch_of(
            episode.seen,
            block_tokens,
            self._info.snapshot_interval_tokens,
            self._image_token_id,
        )
        if touch is None:
            return None
        prompt = await engine_input(self._engine, touch.token_ids, touch.images, episode.pictures)
        outputs = generate(
            self._engine,
            prompt,
            _ONE_TOKEN,
            None,
            f"refresh-{episode_id}-{number}",
            priority=_FIRST,
            trace_headers=episode.seen.trace_headers,
        )
        cached_tokens: int | None = None
        async with aclosing(outputs):
            async for output in outputs:
                if output.num_cached_tokens is not None:
                    cached_tokens = output.num_cached_tokens
        return None if cached_tokens is None else cached_tokens >= touch.boundary_tokens

    def _done(self, number: int, task: asyncio.Task[bool | None]) -> None:
        del self._tasks[number]
        found = None
        if not task.cancelled():
            error = task.exception()
            if error is None:
                found = task.result()
            elif not self._engine.errored and repr(error) != self._told_error:
                # The same episode is tried again every few seconds.
                self._told_error = repr(error)
                _log.warning("a prefix could not be refreshed", exc_info=error)
        self._stream.send({"op": "refreshed", "refresh": number, "found": found})
