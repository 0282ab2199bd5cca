"""The BrainEngine over an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from robot_sdk.clock import Clock, pause
from robot_sdk.errors import (
    BadModelOutputError,
    ContextLimitError,
    InvalidArgumentError,
    WorkerUnavailableError,
)
from server.brain.checks import event_bytes
from server.brain.interface import (
    EngineInfo,
    EngineLoad,
    Event,
    Finished,
    ImagePart,
    Message,
    StoredImage,
    Timing,
    Turn,
)
from server.brain.openai_engine.answer import Answer
from server.brain.openai_engine.endpoint import Endpoint, RefusedError, UnreachableError
from server.brain.openai_engine.pictures import data_url
from server.brain.openai_engine.readiness import Readiness
from server.brain.openai_engine.record import Draft, EpisodeRecord
from server.brain.openai_engine.refusals import context_limit
from server.brain.openai_engine.request import (
    body,
    options_of,
    render_answer,
    render_messages,
    render_tools,
)
from server.brain.openai_engine.usage import ReportedUsage, token_usage
from server.brain.tokens import num_images
from server.sections.openai import OpenAiSection

#: What a robot is told while the endpoint cannot be used. It is asked again at least as often.
_RETRY_AFTER_S = 2.0


class OpenAiEngine:
    """Everything happens on the event loop; only pictures are compressed in a thread.

    Args:
        section: Settings, checked.
        endpoint: Where to ask.
        max_running: Turns at the endpoint at once; others wait in order of arrival.
        max_output_bytes: A turn that writes more is given up.
        delay_s: Added to every turn, and reported as modelled.
    """

    def __init__(
        self,
        section: OpenAiSection,
        endpoint: Endpoint,
        *,
        max_running: int,
        max_output_bytes: int,
        delay_s: float = 0.0,
        clock: Clock,
    ) -> None:
        self._section = section
        self._endpoint = endpoint
        self._max_output_bytes = max_output_bytes
        self._delay_s = delay_s
        self._clock = clock
        self._readiness = Readiness(endpoint, section.model, section.probe_interval_s)
        self._slots = asyncio.Semaphore(max_running)
        self._records: dict[str, EpisodeRecord] = {}
        self._watching: asyncio.Task[None] | None = None
        self._with_usage = section.stream_usage != "off"
        self._reports_cached = section.missing_cached_tokens == "zero"
        self._num_running = 0
        self._num_waiting = 0
        self._prompt_tokens_total = 0
        self._cached_tokens_total: int | None = None
        self._generated_tokens_total = 0

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            engine="openai",
            model=self._section.model,
            max_context_tokens=self._max_context_tokens,
            accepts_images=self._section.max_images != 0,
            reports_cached_tokens=self._reports_cached,
        )

    @property
    def is_ready(self) -> bool:
        return not self._readiness.problem

    @property
    def problem(self) -> str:
        if not self._readiness.problem:
            return ""
        return f"the model endpoint cannot be used: {self._readiness.problem}"

    @property
    def num_running(self) -> int:
        return self._num_running

    @property
    def num_waiting(self) -> int:
        return self._num_waiting

    @property
    def load(self) -> EngineLoad:
        """What this server had of the endpoint; others may use it, too."""
        return EngineLoad(
            requests_running=self._num_running,
            requests_waiting=self._num_waiting,
            prompt_tokens_total=self._prompt_tokens_total,
            cached_tokens_total=self._cached_tokens_total,
            generated_tokens_total=self._generated_tokens_total,
        )

    async def start(self) -> None:
        await self._endpoint.open()
        self._watching = asyncio.create_task(self._readiness.watch())

    async def loaded(self) -> None:
        """Returns once the endpoint was asked. One that cannot be used is asked again later."""
        await self._readiness.asked()

    async def stop(self) -> None:
        self._readiness.problem = "the server is stopping"
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._endpoint.close()

    def commit(self, episode_id: str, turn_index: int) -> None:
        record = self._records.get(episode_id)
        if record is not None:
            record.commit(turn_index)

    async def refresh(self, episode_id: str) -> None:
        """An endpoint shows no way to its cache."""

    def end_episode(self, episode_id: str) -> None:
        self._records.pop(episode_id, None)

    async def decide(self, turn: Turn) -> AsyncGenerator[Event, None]:
        if not self.is_ready:
            raise self._unavailable()
        arrived_s = self._clock.now_s()
        async with self._slot():
            started_s = self._clock.now_s()
            record = self._record(turn.episode_id)
            if not record.fits(turn):
                record = self._records[turn.episode_id] = await self._rebuilt(turn)
            draft = await self._draft(turn, record)
            asked_s = self._clock.now_s()
            await pause(self._delay_s)
            answer = Answer()
            num_bytes = 0
            first_s: float | None = None
            async with aclosing(self._ask(turn, record, draft, arrived_s)) as stream:
                async for data in stream:
                    for event in answer.feed(data):
                        first_s = self._clock.now_s() if first_s is None else first_s
                        num_bytes += event_bytes(event)
                        yield event
                    if num_bytes + answer.call_bytes > self._max_output_bytes:
                        raise BadModelOutputError(
                            "the model wrote more than brain.max_output_bytes in one turn",
                            allowed=(f"<= {self._max_output_bytes}",),
                        )
                    if answer.is_done:
                        break
            answer.check_whole()
            calls = answer.tool_calls(turn.turn_index, record.call_ids)
            for call in calls:
                yield call
            done_s = self._clock.now_s()
            usage = self._usage(answer.usage)
            record.draft = replace(
                draft,
                answer=render_answer(
                    answer.text, answer.reasoning, self._reasoning_field(answer), calls
                ),
                tool_calls=calls,
                usage=usage,
            )
            yield Finished(
                answer.finish_reason,
                token_usage(usage, record.usage, draft.num_images),
                Timing(
                    queue_s=started_s - arrived_s,
                    preprocess_s=asked_s - started_s,
                    decode_s=None if first_s is None else done_s - first_s,
                    modelled_delay_s=self._delay_s or None,
                ),
            )

    @property
    def _max_context_tokens(self) -> int | None:
        return self._section.max_context_tokens or self._readiness.max_context_tokens

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        self._num_waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._num_waiting -= 1
        self._num_running += 1
        try:
            yield
        finally:
            self._num_running -= 1
            self._slots.release()

    def _record(self, episode_id: str) -> EpisodeRecord:
        return self._records.setdefault(episode_id, EpisodeRecord())

    async def _rebuilt(self, turn: Turn) -> EpisodeRecord:
        """A record from the server's own transcript, which knows no thinking.

        Needed when turns of an episode were committed without this engine's draft of them.
        """
        history = turn.messages[: len(turn.messages) - turn.num_new_messages]
        record = EpisodeRecord()
        record.urls = await self._urls(turn, history, {})
        record.messages = render_messages(history, record.urls, self._section.tool_images)
        record.call_ids = {call.tool_call_id for m in history for call in m.tool_calls}
        record.num_images = num_images(history)
        record.num_turn_messages = len(history)
        record.usage = ReportedUsage() if history else None
        return record

    async def _draft(self, turn: Turn, record: EpisodeRecord) -> Draft:
        images = record.num_images + num_images(turn.new_messages)
        self._check_limits(images, record)
        urls = await self._urls(turn, turn.new_messages, record.urls)
        return Draft(
            turn_index=turn.turn_index,
            num_turn_messages=len(turn.messages),
            messages=tuple(
                render_messages(
                    turn.new_messages, {**record.urls, **urls}, self._section.tool_images
                )
            ),
            urls=urls,
            num_images=images,
        )

    def _check_limits(self, images: int, record: EpisodeRecord) -> None:
        if self._section.max_images == 0 and images:
            raise InvalidArgumentError(
                "this server's model takes no pictures (openai.max_images is 0)",
                field="new_messages",
                value=f"{images} pictures",
            )
        if self._section.max_images is not None and images > self._section.max_images:
            raise ContextLimitError(
                "the conversation has more pictures than the model takes",
                field="new_messages",
                value=images,
                allowed=(f"at most {self._section.max_images} (openai.max_images)",),
            )
        limit, last = self._max_context_tokens, record.usage
        if limit is None or last is None or last.prompt_tokens is None:
            return
        history = last.prompt_tokens + (last.output_tokens or 0)
        if history >= limit:
            raise context_limit(f"{history} tokens before this turn, of {limit}")

    async def _urls(
        self, turn: Turn, messages: tuple[Message, ...], known: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Data URLs of the pictures in `messages` that are not known yet."""
        images: dict[str, StoredImage] = {}
        for message in messages:
            for part in message.parts:
                if not isinstance(part, ImagePart) or part.image_id in known:
                    continue
                image = turn.images.get(part.image_id) or turn.find_image(part.image_id)
                if image is None:
                    raise InvalidArgumentError(
                        "the bytes of a picture are gone", field="image_id", value=part.image_id
                    )
                images[part.image_id] = image
        if not images:
            return {}
        return await asyncio.to_thread(self._encode, images)

    def _encode(self, images: Mapping[str, StoredImage]) -> dict[str, bytes]:
        section = self._section
        return {
            name: data_url(image, section.image_format, section.jpeg_quality)
            for name, image in images.items()
        }

    async def _ask(
        self, turn: Turn, record: EpisodeRecord, draft: Draft, arrived_s: float
    ) -> AsyncGenerator[bytes, None]:
        """The events of the answer.

        A request that was refused for an option is asked once more without the option: a refusal
        is known before anything was run.
        """
        tools = render_tools(turn.tools, self._section.strict_tools)
        messages = (*record.messages, *draft.messages)
        headers = _sendable(turn.trace_headers) if self._section.send_trace_context else {}
        deadline_s = None if turn.deadline_s is None else arrived_s + turn.deadline_s
        sampling, with_usage = turn.sampling, self._with_usage
        while True:
            options = options_of(
                sampling, self._section.max_tokens_field, with_usage, self._section.extra_body
            )
            request = body(self._section.model, tools, messages, options)
            try:
                async with aclosing(self._endpoint.chat(request, headers, deadline_s)) as stream:
                    async for data in stream:
                        yield data
                return
            except RefusedError as error:
                refusal = error.refusal
                if refusal.is_context_limit and sampling.max_output_tokens is not None:
                    # Prompt and longest answer together are too long. Without the bound the
                    # endpoint takes what is left, which is less than the bound.
                    sampling = replace(sampling, max_output_tokens=None)
                elif (
                    refusal.names_stream_options
                    and with_usage
                    and self._section.stream_usage == "auto"
                ):
                    with_usage = self._with_usage = False
                else:
                    raise refusal.error from error
            except UnreachableError as error:
                self._readiness.suspect(f"it cannot be reached: {error}")
                raise self._unavailable() from error

    def _unavailable(self) -> WorkerUnavailableError:
        return WorkerUnavailableError(self.problem, retry_after_s=_RETRY_AFTER_S)

    def _reasoning_field(self, answer: Answer) -> str:
        setting = self._section.reasoning
        return {"auto": answer.reasoning_field, "drop": ""}.get(setting, setting)

    def _usage(self, reported: ReportedUsage) -> ReportedUsage:
        """Counted into the totals, once a turn."""
        self._prompt_tokens_total += reported.prompt_tokens or 0
        self._generated_tokens_total += reported.output_tokens or 0
        if (
            reported.cached_tokens is None
            and reported.prompt_tokens is not None
            and self._section.missing_cached_tokens == "zero"
        ):
            reported = replace(reported, cached_tokens=0)
        if reported.cached_tokens is not None:
            self._reports_cached = True
            self._cached_tokens_total = (self._cached_tokens_total or 0) + reported.cached_tokens
        return reported


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """Without those whose value, which a robot chose, no header can carry."""
    return {name: v for name, v in headers.items() if v.isascii() and v.isprintable()}
