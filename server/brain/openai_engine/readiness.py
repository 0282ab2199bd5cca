"""Whether the endpoint can be used: asked for with its list of models, again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from robot_sdk.backoff import Backoff
from robot_sdk.errors import nearest
from server.brain.openai_engine.endpoint import (
    Endpoint,
    ModelEntry,
    RefusedError,
    UnreachableError,
)

_log = logging.getLogger(__name__)

_MAX_NAMES = 10


class Readiness:
    """Keeps asking. The endpoint may come and go; the server stays.

    Attributes:
        problem: Why the endpoint cannot be used; empty if it can.
        max_context_tokens: What the endpoint says of the model; None is unknown.
    """

    def __init__(self, endpoint: Endpoint, model: str, interval_s: float) -> None:
        self.problem = "it has not answered yet"
        self.max_context_tokens: int | None = None
        self._endpoint = endpoint
        self._model = model
        self._interval_s = interval_s
        self._backoff = Backoff()
        self._asked = asyncio.Event()
        self._look_now = asyncio.Event()

    async def asked(self) -> None:
        """Wait for the first answer, good or bad."""
        await self._asked.wait()

    def suspect(self, problem: str) -> None:
        """A turn could not reach the endpoint: it counts as gone until it is asked again."""
        self._note(problem)
        self._look_now.set()

    async def watch(self) -> None:
        """Ask for ever."""
        while True:
            try:
                self._note(await self._problem())
            except Exception:
                _log.exception("the model endpoint cannot be asked")
            self._asked.set()
            pause_s = self._interval_s
            if self.problem:
                pause_s = min(self._backoff.next_s(), self._interval_s)
            else:
                self._backoff.reset()
            self._look_now.clear()
            try:
                async with asyncio.timeout(pause_s):
                    await self._look_now.wait()
            except TimeoutError:
                pass

    async def _problem(self) -> str:
        try:
            models = await self._endpoint.models()
            if models is None and not await self._endpoint.has_chat():
                return (
                    "it knows neither of the addresses models and chat/completions (404); check "
                    "that openai.base_url ends with /v1"
                )
        except UnreachableError as error:
            return f"it cannot be reached (openai.base_url): {error}"
        except RefusedError as error:
            return str(error.refusal.error)
        if not models:
            return ""  # it has no list, so the first turn will tell
        return self._check_model(models)

    def _check_model(self, models: Sequence[ModelEntry]) -> str:
        for entry in models:
            if entry.name == self._model:
                self.max_context_tokens = entry.max_context_tokens
                return ""
        names = [entry.name for entry in models]
        offered = nearest(self._model, names) or names[:_MAX_NAMES]
        return f"it has no model {self._model} (openai.model); it offers {', '.join(offered)}"

    def _note(self, problem: str) -> None:
        if problem != self.problem or not self._asked.is_set():
            if problem:
                _log.warning("the model endpoint cannot be used: %s; asking on", problem)
            else:
                _log.info("the model endpoint can be used")
        self.problem = problem
