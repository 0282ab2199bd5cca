"""The spans of one episode: episode > turn > (brain.decide | tool.<name> > policy.chunk).

One span per logical turn, call or chunk, with explicit times and parents; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.trace import SpanKind

from robot_sdk.agent import DecideObserver, Gap
from robot_sdk.api.v1 import common_pb2
from robot_sdk.loop_state import LoopState
from robot_sdk.messages import ImagePart, Message, ToolCall, TurnResult
from robot_sdk.policy_source import ChunkRecord
from robot_sdk.telemetry import Metrics, OpenSpan, Telemetry, attributes, spans, trace_context
from robot_sdk.tools import ToolResult


class EpisodeTrace:
    """Implements `robot_sdk.agent.AgentObserver`, and records the chunks of policies.

    Args:
        telemetry: Where the spans go.
        episode: The open episode span; parent of everything.
        control_hz: Control rate, to turn steps into robot time.
        state: Counters of the control loop.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        episode: OpenSpan,
        control_hz: float,
        state: Callable[[], LoopState],
    ) -> None:
        self._telemetry = telemetry
        self._control_hz = control_hz
        self._state = state
        self._turn: OpenSpan = episode
        self._tool: OpenSpan = episode
        self._episode = episode

    @contextmanager
    def turn(self, turn_index: int, /) -> Iterator[None]:
        """One question and the tools of its answer."""
        self._turn = self._telemetry.start_span(
            attributes.SPAN_TURN,
            parent=self._episode,
            attributes=spans.turn(turn_index=turn_index),
        )
        with _ended(self._turn):
            yield

    @contextmanager
    def decide(self, gap: Gap, new_messages: Sequence[Message], /) -> Iterator[DecideObserver]:
        """One question to the brain."""
        span = self._telemetry.start_span(
            attributes.SPAN_DECIDE,
            parent=self._turn,
            kind=SpanKind.CLIENT,
            attributes=spans.gap(
                env_steps=gap.steps, control_hz=self._control_hz, wall_s=gap.wall_s
            ),
        )
        if gap.steps is not None and self._control_hz:
            self._telemetry.metrics.env_step_gap(gap.steps / self._control_hz)
        images = sum(isinstance(part, ImagePart) for m in new_messages for part in m.parts)
        with _ended(span):
            yield _DecideSpan(span, images, self._telemetry.metrics)

    @contextmanager
    def tool(self, call: ToolCall, /) -> Iterator[Callable[[ToolResult], None]]:
        """One tool call."""
        before = self._state()
        span = self._telemetry.start_span(
            spans.tool_span_name(call.name),
            parent=self._turn,
            attributes=spans.tool(name=call.name, call_id=call.id),
        )
        self._tool = span

        def report(result: ToolResult) -> None:
            after = self._state()
            span.set(
                spans.tool(
                    name=call.name,
                    is_error=result.is_error,
                    steps=after.active_steps - before.active_steps,
                    starved_ticks=after.starved_ticks - before.starved_ticks,
                    start_wait_ticks=after.start_wait_ticks - before.start_wait_ticks,
                )
            )

        try:
            with _ended(span):
                yield report
        finally:
            self._tool = self._episode

    def chunks(self, policy: str) -> ChunkTrace:
        """The chunk spans of one policy run, children of the running tool."""
        return ChunkTrace(self._telemetry, self._tool, policy)


class ChunkTrace:
    """Opens a span for every observation that is sent and ends it when its fate is known.

    Called on the control thread only.
    """

    def __init__(self, telemetry: Telemetry, parent: OpenSpan, policy: str) -> None:
        self._telemetry = telemetry
        self._parent = parent
        self._policy = policy
        self._open: dict[int, OpenSpan] = {}
        self.num_chunks = 0

    @property
    def trace(self) -> common_pb2.TraceContext:
        """Trace context of the whole policy run."""
        return trace_context(self._parent)

    def sent(self, sequence: int) -> common_pb2.TraceContext:
        """An observation goes out now."""
        span = self._telemetry.start_span(
            attributes.SPAN_CHUNK, parent=self._parent, kind=SpanKind.CLIENT
        )
        self._open[sequence] = span
        return trace_context(span)

    def ended(self, record: ChunkRecord) -> None:
        """It is known what became of it."""
        self.num_chunks += record.rows is not None
        span = self._open.pop(record.sequence, None)
        if span is None:
            return
        round_trip_s = age_steps = None
        if record.received_s is not None:
            round_trip_s = record.received_s - record.sent_s
            self._telemetry.metrics.chunk_round_trip(round_trip_s)
        if record.applied_step is not None:
            age_steps = record.applied_step - record.control_step
        error = None if record.error is None else str(record.error)
        if record.outcome not in ("merged", "failed"):
            error = error or record.outcome
        span.end(
            record.received_s,
            attributes=spans.chunk(
                sequence=record.sequence,
                control_step=record.control_step,
                policy=self._policy,
                round_trip_s=round_trip_s,
                timing=record.timing,
                rows=record.rows,
                applied_step=record.applied_step,
                dropped_rows=record.dropped_rows,
                age_steps=age_steps,
                error=error,
            ),
            error=error,
        )


class _DecideSpan:
    """Implements `robot_sdk.agent.DecideObserver`."""

    def __init__(self, span: OpenSpan, num_new_images: int, metrics: Metrics) -> None:
        self._span = span
        self._num_new_images = num_new_images
        self._metrics = metrics

    @property
    def trace(self) -> common_pb2.TraceContext:
        return trace_context(self._span)

    def answered(self, turn: TurnResult, /) -> None:
        self._metrics.brain_latency(turn.latency_s)
        self._span.set(
            spans.decide(
                turn_index=turn.index,
                latency_s=turn.latency_s,
                unavailable_s=turn.unavailable_s,
                usage=turn.usage,
                timing=turn.timing,
                engine=turn.engine,
                model=turn.model,
                finish_reason=turn.finish_reason,
                replayed=turn.replayed,
                num_new_images=self._num_new_images,
            )
        )


@contextmanager
def _ended(span: OpenSpan) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        span.end(error=error)
        raise
    span.end()
