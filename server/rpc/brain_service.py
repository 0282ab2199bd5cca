"""BrainService: one Decide per turn, run at most once to its commit."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import grpc

from robot_sdk.api.v1 import brain_pb2, brain_pb2_grpc, common_pb2
from robot_sdk.clock import Clock, to_ns
from robot_sdk.errors import (
    BadModelOutputError,
    CancelledByServerError,
    ContextLimitError,
    DeadlineExceededError,
    EpisodeEndedError,
    EpisodeLostError,
    InternalServerError,
    InvalidArgumentError,
    OverloadedError,
    RobotSdkError,
    UnsupportedError,
    WorkerUnavailableError,
)
from robot_sdk.message_codec import encode_usage
from robot_sdk.telemetry import (
    OpenSpan,
    Telemetry,
    parent_from,
    spans,
    trace_context,
    trace_from_metadata,
)
from robot_sdk.telemetry import attributes as attr
from server.brain.checks import check_event, check_num_calls
from server.brain.interface import (
    BrainEngine,
    Event,
    Finished,
    LosesEpisodes,
    Reasoning,
    Sampling,
    Text,
    Timing,
    ToolCall,
    Turn,
)
from server.brain.transcript import Draft, Output
from server.core.turns import Attempt, Replay
from server.rpc.calls import ActiveCall
from server.rpc.errors import not_a_number, translated
from server.rpc.hub import EpisodeHub, LiveEpisode, TurnRecord
from server.rpc.services import Services

_log = logging.getLogger(__name__)

_FINISH_REASONS = {
    "stop": brain_pb2.FINISH_REASON_STOP,
    "length": brain_pb2.FINISH_REASON_LENGTH,
    "aborted": brain_pb2.FINISH_REASON_ABORTED,
}
#: What an engine may say of a turn.
_ENGINE_ERRORS = (
    BadModelOutputError,
    CancelledByServerError,
    ContextLimitError,
    DeadlineExceededError,
    EpisodeLostError,
    InternalServerError,
    InvalidArgumentError,
    OverloadedError,
    UnsupportedError,
    WorkerUnavailableError,
)
#: When a turn that came while the brain was not ready is worth asking again.
_UNREADY_RETRY_S = 1.0
#: Above this a request is checked in a thread: hashing a picture, or going through thousands of
#: short parts, would hold up the event loop.
_BIG_REQUEST_BYTES = 16 * 1024


@dataclass(frozen=True)
class _Asked:
    """A turn that is being worked on. `slack_s` None: the robot's is unknown."""

    request: brain_pb2.DecideRequest
    live: LiveEpisode
    received_s: float
    slack_s: float | None
    span: OpenSpan


class BrainServicer(brain_pb2_grpc.BrainServiceServicer):
    """Translates between the stream and an engine; keeps transcript and turn log in step."""

    def __init__(
        self,
        hub: EpisodeHub,
        services: Services,
        clock: Clock,
        telemetry: Telemetry,
        max_turns: int | None,
    ) -> None:
        self._hub = hub
        self._services = services
        self._clock = clock
        self._telemetry = telemetry
        self._max_turns = max_turns
        brain: object = services.brain
        if isinstance(brain, LosesEpisodes):
            brain.on_episodes_lost = hub.end_by_lost_brain

    @translated
    async def Decide(
        self, request: brain_pb2.DecideRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        received_s = self._clock.now_s()
        await context.send_initial_metadata(())  # see server.rpc.calls
        if not request.trace.traceparent:
            request.trace.CopyFrom(trace_from_metadata(context.invocation_metadata() or ()))
        live = self._hub.authorise(request.episode)
        if self._services.brain is None or not live.lease.info.uses_brain:
            raise UnsupportedError(
                "this episode was opened without the brain, or this server has none",
                field="uses_brain",
            )
        for field in ("deadline_s", "slack_s"):
            if math.isnan(getattr(request, field)):
                raise not_a_number(field)
        begun = live.turns.begin(request.turn_index)
        if isinstance(begun, Replay):
            self._services.brain_totals.replayed += 1
            await self._replay(request, begun.record, context, received_s)
            return
        if not self._services.brain.is_ready:
            # Before the turn is accepted: it counts neither as taken nor as aborted.
            live.turns.abandon(begun)
            raise WorkerUnavailableError(
                f"the brain is not ready: {self._services.brain.problem}",
                retry_after_s=_UNREADY_RETRY_S,
            )
        slack_s = request.slack_s if request.HasField("slack_s") else self._hub.slack_s(live)
        span = self._telemetry.start_span(
            attr.SPAN_SERVER_DECIDE,
            received_s,
            parent=parent_from(request.trace),
            attributes={attr.BRAIN_SLACK_S: slack_s},
        )
        asked = _Asked(request, live, received_s, slack_s, span)
        call = ActiveCall()
        live.calls.add(call)
        timer: asyncio.TimerHandle | None = None
        if request.HasField("deadline_s"):
            timer = asyncio.get_running_loop().call_later(
                max(request.deadline_s, 0.0),
                call.stop,
                DeadlineExceededError(
                    "the turn took longer than its deadline",
                    field="deadline_s",
                    value=request.deadline_s,
                ),
            )
        try:
            with call.running():
                record, first_s = await self._run(asked, begun, context)
        except BaseException as error:
            self._services.brain_totals.aborted += 1
            self._hub.turn_failed(live)
            self._end_span(asked, None, None, error)
            if isinstance(error, ContextLimitError):
                self._hub.end_by_context_limit(live, error)
            raise
        finally:
            live.turns.abandon(begun)
            live.calls.discard(call)
            if timer is not None:
                timer.cancel()
        # Committed: from here on a broken stream costs the client a replay and nothing else.
        done_s = self._clock.now_s()
        self._hub.turn_committed(live, record, done_s, done_s - received_s)
        self._end_span(asked, record, first_s, None)
        for tool_call in record.tool_calls:
            await context.write(_tool_call(tool_call))
        await context.write(self._done(request.turn_index, record, received_s, done_s, first_s))

    async def _run(
        self, asked: _Asked, attempt: Attempt, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tuple[TurnRecord, float | None]:
        """The turn up to and including its commit; returns it and when its first token came."""
        engine = self._services.brain
        assert engine is not None
        request, live, span = asked.request, asked.live, asked.span
        self._check_limit(live)
        draft = await _draft(live, request)
        tools = draft.tools or live.transcript.tools
        turn = Turn(
            episode_id=live.episode_id,
            turn_index=request.turn_index,
            messages=(*live.transcript.messages, *draft.messages),
            tools=tools,
            sampling=_sampling(request.sampling),
            slack_s=asked.slack_s,
            num_new_messages=len(draft.messages),
            images=draft.images,
            find_image=live.transcript.image,
            deadline_s=request.deadline_s if request.HasField("deadline_s") else None,
            trace_headers=_trace_headers(trace_context(span)) or _trace_headers(request.trace),
        )
        await context.write(_accepted(asked.received_s, replayed=False))
        held_s = await self._hub.hold_turn(live)
        decide_s = self._clock.now_s()
        if held_s:
            self._telemetry.record_span(
                attr.SPAN_SERVER_HOLD, decide_s - held_s, decide_s, parent=span
            )
        text: list[str] = []
        reasoning: list[str] = []
        tool_calls: list[ToolCall] = []
        finished: Finished | None = None
        first_s: float | None = None
        async with aclosing(_events(engine, turn)) as events:
            async for event in events:
                first_s = self._clock.now_s() if first_s is None else first_s
                if isinstance(event, Text):
                    text.append(event.text)
                    await context.write(
                        brain_pb2.DecideResponse(text=brain_pb2.TextDelta(text=event.text))
                    )
                elif isinstance(event, Reasoning):
                    reasoning.append(event.text)
                    await context.write(
                        brain_pb2.DecideResponse(
                            reasoning=brain_pb2.ReasoningDelta(text=event.text)
                        )
                    )
                elif isinstance(event, ToolCall):
                    tool_calls.append(event)
                    check_num_calls(len(tool_calls))
                else:
                    finished = event
        if finished is None:
            raise BadModelOutputError("the engine ended the turn without saying that it finished")
        if finished.finish_reason == "aborted":
            raise CancelledByServerError("the engine gave up the turn")
        _check_ids(tool_calls)
        output = Output("".join(text), "".join(reasoning), tuple(tool_calls))
        if finished.usage is None:
            finished = replace(finished, usage=live.transcript.usage(draft, output))
        if held_s:
            queue_s = held_s + (finished.timing.queue_s or 0.0)
            finished = replace(finished, timing=replace(finished.timing, queue_s=queue_s))
        self._record_preprocessing(span, decide_s, finished.timing)
        record = TurnRecord(output.reasoning, output.text, output.tool_calls, finished)
        live.turns.commit(attempt, record)
        live.transcript.append(draft, output)
        engine.commit(live.episode_id, request.turn_index)
        self._services.brain_totals.committed += 1
        return record, first_s

    def _check_limit(self, live: LiveEpisode) -> None:
        if self._max_turns is not None and live.turns.num_committed >= self._max_turns:
            raise EpisodeEndedError(
                "the episode has had all its turns",
                field="turn_index",
                value=live.turns.num_committed,
                allowed=(f"at most {self._max_turns} turns (episodes.max_turns)",),
            )

    async def _replay(
        self,
        request: brain_pb2.DecideRequest,
        record: TurnRecord,
        context: grpc.aio.ServicerContext[Any, Any],
        received_s: float,
    ) -> None:
        await context.write(_accepted(received_s, replayed=True))
        if record.reasoning:
            await context.write(
                brain_pb2.DecideResponse(reasoning=brain_pb2.ReasoningDelta(text=record.reasoning))
            )
        if record.text:
            await context.write(
                brain_pb2.DecideResponse(text=brain_pb2.TextDelta(text=record.text))
            )
        for tool_call in record.tool_calls:
            await context.write(_tool_call(tool_call))
        # The times of the first run would be wrong for this one.
        replayed = TurnRecord(
            record.reasoning,
            record.text,
            record.tool_calls,
            replace(record.finished, timing=Timing()),
        )
        await context.write(
            self._done(request.turn_index, replayed, received_s, self._clock.now_s(), None)
        )

    def _done(
        self,
        turn_index: int,
        record: TurnRecord,
        received_s: float,
        done_s: float,
        first_s: float | None,
    ) -> brain_pb2.DecideResponse:
        engine = self._services.brain
        assert engine is not None
        usage, timing = record.finished.usage, record.finished.timing
        assert usage is not None
        return brain_pb2.DecideResponse(
            done=brain_pb2.DecideDone(
                turn_index=turn_index,
                finish_reason=_FINISH_REASONS[record.finished.finish_reason],
                usage=encode_usage(usage),
                timing=brain_pb2.BrainTiming(
                    server_received_ns=to_ns(received_s),
                    server_done_ns=to_ns(done_s),
                    queue_s=timing.queue_s,
                    preprocess_s=timing.preprocess_s,
                    prefill_s=timing.prefill_s,
                    decode_s=timing.decode_s,
                    time_to_first_token_s=None if first_s is None else first_s - received_s,
                    modelled_delay_s=timing.modelled_delay_s,
                ),
                engine=engine.info.engine,
                model=engine.info.model,
                dropped_turns=record.finished.dropped_turns,
            )
        )

    def _record_preprocessing(self, span: OpenSpan, decide_s: float, timing: Timing) -> None:
        """Decoding pictures and rendering the prompt, which no figure of the model holds."""
        if timing.preprocess_s is None:
            return
        start_s = decide_s + (timing.modelled_delay_s or 0.0)
        self._telemetry.record_span(
            attr.SPAN_SERVER_PREPROCESS, start_s, start_s + timing.preprocess_s, parent=span
        )

    def _end_span(
        self,
        asked: _Asked,
        record: TurnRecord | None,
        first_s: float | None,
        error: BaseException | None,
    ) -> None:
        request, received_s = asked.request, asked.received_s
        end_s = self._clock.now_s()
        engine = self._services.brain
        assert engine is not None
        done = (
            None
            if record is None
            else self._done(request.turn_index, record, received_s, end_s, first_s).done
        )
        attributes = spans.decide(
            turn_index=request.turn_index,
            usage=None if done is None else done.usage,
            timing=None if done is None else done.timing,
            engine=engine.info.engine,
            model=engine.info.model,
            finish_reason=None if record is None else record.finished.finish_reason,
        )
        attributes[attr.EPISODE_ID] = asked.live.episode_id
        if error is not None:
            attributes[attr.BRAIN_ERROR] = type(error).__name__
        asked.span.end(end_s, attributes=attributes, error=error)


async def _events(engine: BrainEngine, turn: Turn) -> AsyncGenerator[Event, None]:
    """What the engine says, checked. It may say that a turn failed, but not in any words.

    An error such as "lease expired" or "wrong token" is the server's to say; from a planner of a
    user's own it would end episodes for a wrong reason.
    """
    try:
        async with aclosing(engine.decide(turn)) as events:
            async for event in events:
                check_event(event)
                yield event
    except RobotSdkError as error:
        if isinstance(error, _ENGINE_ERRORS):
            raise
        _log.warning("the engine raised %s, which is not its to raise: %s", type(error), error)
        raise InternalServerError("the brain failed; the server's log says why") from error


async def _draft(live: LiveEpisode, request: brain_pb2.DecideRequest) -> Draft:
    if request.ByteSize() < _BIG_REQUEST_BYTES:
        return live.transcript.draft(request.turn_index, request.new_messages, request.tools)
    return await asyncio.to_thread(
        live.transcript.draft, request.turn_index, request.new_messages, request.tools
    )


def _trace_headers(trace: common_pb2.TraceContext) -> dict[str, str]:
    headers = {"traceparent": trace.traceparent, "tracestate": trace.tracestate}
    return {name: value for name, value in headers.items() if value}


def _sampling(sampling: brain_pb2.Sampling) -> Sampling:
    temperature = sampling.temperature if sampling.HasField("temperature") else None
    if temperature is not None and not temperature >= 0:
        raise InvalidArgumentError(
            "the temperature may not be negative",
            field="sampling.temperature",
            value=temperature,
            allowed=(">= 0",),
        )
    top_p = sampling.top_p if sampling.HasField("top_p") else None
    if top_p is not None and not 0 < top_p <= 1:
        raise InvalidArgumentError(
            "top_p is a share", field="sampling.top_p", value=top_p, allowed=("> 0 and <= 1",)
        )
    has_bound = sampling.HasField("max_output_tokens")
    max_output_tokens = sampling.max_output_tokens if has_bound else None
    if max_output_tokens == 0:
        raise InvalidArgumentError(
            "an answer without a token is none",
            field="sampling.max_output_tokens",
            value=0,
            allowed=(">= 1", "absent: the server's configuration decides"),
        )
    return Sampling(
        temperature=temperature,
        top_p=top_p,
        max_output_tokens=max_output_tokens,
        seed=sampling.seed if sampling.HasField("seed") else None,
    )


def _check_ids(tool_calls: Sequence[ToolCall]) -> None:
    ids = [call.tool_call_id for call in tool_calls]
    if len(set(ids)) != len(ids) or "" in ids:
        raise BadModelOutputError(
            "the engine gave tool calls without an id of their own",
            field="tool_call_id",
            value=", ".join(ids),
        )


def _accepted(received_s: float, replayed: bool) -> brain_pb2.DecideResponse:
    return brain_pb2.DecideResponse(
        accepted=brain_pb2.DecideAccepted(server_received_ns=to_ns(received_s), replayed=replayed)
    )


def _tool_call(call: ToolCall) -> brain_pb2.DecideResponse:
    return brain_pb2.DecideResponse(
        tool_call=brain_pb2.ToolCall(
            tool_call_id=call.tool_call_id, name=call.name, arguments_json=call.arguments_json
        )
    )
