"""HTTP to one endpoint: ask for an answer, ask which models there are.

Every request has a connection of its own. One that is kept alive may be closed by the endpoint just
as a request is sent on it, and then nobody knows whether the turn has begun; and closing the
connection is how a turn is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robot_sdk.backoff import Backoff
from robot_sdk.clock import Clock, pause
from robot_sdk.errors import (
    BadModelOutputError,
    MissingExtraError,
    WorkerUnavailableError,
)
from server.brain.openai_engine.pieces import blocks, num_bytes
from server.brain.openai_engine.refusals import Refusal, plain_words, read_refusal
from server.brain.openai_engine.settings import ApiKey
from server.brain.openai_engine.sse import SseDecoder
from server.sections.openai import OpenAiSection

if TYPE_CHECKING:
    import aiohttp

_log = logging.getLogger(__name__)

#: Of an answer that says why there is none.
_MAX_REFUSAL_BYTES = 64 * 1024
_MAX_MODELS_BYTES = 4 * 1024 * 1024
_REFUSAL_TIMEOUT_S = 10.0
_MODELS_TIMEOUT_S = 10.0


class RefusedError(Exception):
    """The endpoint answered, and not with an answer to the turn. Caught by the engine."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal.error))
        self.refusal = refusal


class UnreachableError(Exception):
    """No connection came about, so nothing was sent. The message says why."""


@dataclass(frozen=True)
class ModelEntry:
    """A model that the endpoint offers. `max_context_tokens` None: it does not say."""

    name: str
    max_context_tokens: int | None


class Endpoint:
    """See the module.

    Args:
        key: None: the endpoint wants none.
    """

    def __init__(self, section: OpenAiSection, key: ApiKey | None, clock: Clock) -> None:
        self._section = section
        self._key = key
        self._clock = clock
        self._base_url = section.base_url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make ready to send; connects nowhere yet.

        Raises:
            MissingExtraError: aiohttp is not installed.
        """
        try:
            import aiohttp
        except ImportError as error:
            raise MissingExtraError(
                'brain.engine = "openai" needs aiohttp', hint="pip install -e '.[server]'"
            ) from error
        headers = {str(name): str(value) for name, value in self._section.extra_headers.items()}
        if self._key is not None:
            headers[self._key.header] = self._key.reveal()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                force_close=True,
                limit=0,  # the engine bounds the turns that run at once
                ssl=ssl.create_default_context(cafile=self._section.ca_file or None),
            ),
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, connect=self._section.connect_timeout_s),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def models(self) -> list[ModelEntry] | None:
        """What the endpoint offers; None if it has no list of models.

        Raises:
            UnreachableError: No connection, or no answer in time.
            RefusedError: It answered with an error.
        """
        import aiohttp

        assert self._session is not None
        try:
            async with asyncio.timeout(_MODELS_TIMEOUT_S + self._section.connect_timeout_s):
                async with self._session.get(
                    f"{self._base_url}/models", allow_redirects=False
                ) as response:
                    if response.status in (404, 405, 501):
                        return None
                    if response.status != 200:
                        raise RefusedError(await self._refusal(response))
                    received = bytearray()
                    await _read_into(received, response, _MAX_MODELS_BYTES)
                    return _models(received)
        except TimeoutError:
            raise UnreachableError("no answer in time") from None
        except aiohttp.ClientError as error:
            raise UnreachableError(self._words(error)) from error

    async def has_chat(self) -> bool:
        """Whether it answers at all where turns go: asked with a request that holds no turn.

        Raises:
            UnreachableError: No connection, or no answer in time.
            RefusedError: It refused the key.
        """
        import aiohttp

        assert self._session is not None
        try:
            async with asyncio.timeout(_MODELS_TIMEOUT_S + self._section.connect_timeout_s):
                async with self._session.post(
                    f"{self._base_url}/chat/completions", json={}, allow_redirects=False
                ) as response:
                    if response.status in (401, 403):
                        raise RefusedError(await self._refusal(response))
                    return response.status != 404
        except TimeoutError:
            raise UnreachableError("no answer in time") from None
        except aiohttp.ClientError as error:
            raise UnreachableError(self._words(error)) from error

    async def chat(
        self,
        body: Sequence[bytes],
        headers: Mapping[str, str],
        deadline_s: float | None,
    ) -> AsyncGenerator[bytes, None]:
        """The data of the events of one answer. Closing the generator closes the connection.

        A request that the endpoint did not take is repeated with growing pauses, for as long as
        the deadline allows. Once a response has begun, nothing is repeated.

        Args:
            body: Pieces of the request's body.
            headers: More headers.
            deadline_s: On this host's monotonic clock; None is no bound.

        Raises:
            UnreachableError: No connection came about.
            RefusedError: The endpoint answered with a status other than 200.
            RobotSdkError: It broke off or fell silent.
        """
        response = await self._accepted(body, headers, deadline_s)
        try:
            async with aclosing(self._events(response)) as events:
                async for data in events:
                    yield data
        finally:
            response.close()

    async def _accepted(
        self, body: Sequence[bytes], headers: Mapping[str, str], deadline_s: float | None
    ) -> aiohttp.ClientResponse:
        """A response of status 200, of which nothing has been read."""
        backoff = Backoff()
        for left in range(self._section.max_retries, -1, -1):
            failure: UnreachableError | RefusedError
            retry_after_s = None
            try:
                return await self._attempt(body, headers)
            except UnreachableError as error:
                failure = error
            except RefusedError as error:
                if not error.refusal.may_repeat:
                    raise
                failure, retry_after_s = error, error.refusal.error.retry_after_s
            pause_s = backoff.next_s(retry_after_s)
            is_late = deadline_s is not None and self._clock.now_s() + pause_s >= deadline_s
            if left == 0 or pause_s > self._section.max_retry_wait_s or is_late:
                raise failure
            _log.info("asking the model endpoint again in %.1f s: %s", pause_s, failure)
            await pause(pause_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(
        self, body: Sequence[bytes], headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        import aiohttp

        assert self._session is not None
        request = self._session.post(
            f"{self._base_url}/chat/completions",
            data=_stream(body),
            headers={
                **headers,
                "Content-Type": "application/json",
                "Content-Length": str(num_bytes(body)),
                "Accept": "text/event-stream",
            },
            allow_redirects=False,
        )
        try:
            async with asyncio.timeout(self._section.first_token_timeout_s) as waiting:
                response = await request
        except TimeoutError:
            if not waiting.expired():
                raise UnreachableError("no connection in time") from None
            raise self._silence("first_token_timeout_s") from None
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(self._words(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise WorkerUnavailableError(
                "the model endpoint broke the connection off before it answered",
                value=self._words(error),
            ) from error
        if response.status == 200:
            return response
        try:
            raise RefusedError(await self._refusal(response))
        finally:
            response.close()

    async def _events(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        import aiohttp

        if response.content_type != "text/event-stream":
            words = plain_words(await self._start(response, _MAX_REFUSAL_BYTES))
            raise BadModelOutputError(
                f"the model endpoint answered with {response.content_type} and not with a stream",
                value=words,
                allowed=("text/event-stream",),
            )
        decoder = SseDecoder()
        setting, limit_s = "first_token_timeout_s", self._section.first_token_timeout_s
        silent_since_s = self._clock.now_s()
        while True:
            left_s = silent_since_s + limit_s - self._clock.now_s()
            try:
                async with asyncio.timeout(left_s):
                    received = await response.content.readany()
            except TimeoutError:
                raise self._silence(setting) from None
            except (aiohttp.ClientError, OSError) as error:
                raise WorkerUnavailableError(
                    "the model endpoint broke the connection off in the middle of its answer",
                    value=self._words(error),
                ) from error
            if not received:
                return
            # What has come already is read without waiting; an endpoint that sends faster than it
            # is read must not keep the event loop to itself.
            await pause(0)
            for data in decoder.feed(received):
                setting, limit_s = "silence_timeout_s", self._section.silence_timeout_s
                silent_since_s = self._clock.now_s()
                yield self._redacted(data)

    async def _refusal(self, response: aiohttp.ClientResponse) -> Refusal:
        text = await self._start(response, _MAX_REFUSAL_BYTES)
        return read_refusal(response.status, response.headers, text)

    async def _start(self, response: aiohttp.ClientResponse, size_bytes: int) -> str:
        """The first bytes of a body, as far as they come."""
        import aiohttp

        received = bytearray()
        try:
            async with asyncio.timeout(_REFUSAL_TIMEOUT_S):
                await _read_into(received, response, size_bytes)
        except (TimeoutError, aiohttp.ClientError, OSError):
            pass  # what it said so far will do
        text = received[:size_bytes].decode("utf-8", "replace")
        return text if self._key is None else self._key.redact(text)

    def _redacted(self, data: bytes) -> bytes:
        return data if self._key is None else self._key.redact_bytes(data)

    def _words(self, error: Exception) -> str:
        import aiohttp

        words = str(error) or type(error).__name__
        if isinstance(error, aiohttp.ClientSSLError):
            words += " (openai.ca_file names the certificates to trust)"
        elif isinstance(error, aiohttp.ClientConnectorError):
            # Its own words speak of TLS where there is none.
            cause = error.os_error
            reason = cause.strerror or str(cause)
            if isinstance(cause, ConnectionError) and cause.errno is not None:
                reason = os.strerror(cause.errno)
            words = f"no connection to {error.host}:{error.port}: {reason}"
        return words if self._key is None else self._key.redact(words)

    def _silence(self, setting: str) -> WorkerUnavailableError:
        return WorkerUnavailableError(
            "the model endpoint fell silent",
            field=f"openai.{setting}",
            value=f"{getattr(self._section, setting):g} s without a word",
        )


async def _read_into(
    received: bytearray, response: aiohttp.ClientResponse, size_bytes: int
) -> None:
    """The body up to its end, or up to `size_bytes` and a little more. Fills as it comes."""
    while len(received) < size_bytes and (more := await response.content.readany()):
        received += more


async def _stream(body: Sequence[bytes]) -> AsyncIterator[bytes]:
    for block in blocks(body):
        yield block


def _models(body: bytes | bytearray) -> list[ModelEntry]:
    """The model list; what is unreadable in it is passed over."""
    try:
        data: Any = json.loads(body)["data"]
        entries = [entry for entry in data if isinstance(entry, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
    return [
        ModelEntry(str(entry.get("id", "")), limit if type(limit) is int and limit > 0 else None)
        for entry in entries
        for limit in [entry.get("max_model_len")]
    ]
