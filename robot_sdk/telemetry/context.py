"""Explicit trace parents: W3C trace context in messages and metadata, not in context variables.

Nothing here attaches a span to the running context. A streamed call ends wherever its consumer
stops, in another thread or task, and a token attached in one context cannot be detached in another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Union

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.span import TraceState

from robot_sdk.api.v1 import common_pb2
from robot_sdk.telemetry.open_span import OpenSpan

#: What may be given as the parent of a span. None starts a new trace.
Parent = Union[OpenSpan, trace.Span, trace.SpanContext, None]

#: What the standard lets everybody cut off. Call metadata has little room.
_MAX_TRACESTATE_CHARS = 512

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def span_context(parent: Parent) -> trace.SpanContext | None:
    """The valid span context of `parent`, or None."""
    if parent is None:
        return None
    if isinstance(parent, OpenSpan):
        context = parent.context
    else:
        context = parent.get_span_context() if isinstance(parent, trace.Span) else parent
    return context if context.is_valid else None


def parent_context(parent: Parent) -> Context:
    """A context that holds `parent` and nothing of the ambient one."""
    context = span_context(parent)
    if context is None:
        return Context()
    return trace.set_span_in_context(trace.NonRecordingSpan(context), Context())


def trace_context(span: Parent) -> common_pb2.TraceContext:
    """The wire form of a span, for the `trace` field of a message. Empty for no span."""
    context = span_context(span)
    if context is None:
        return common_pb2.TraceContext()
    return common_pb2.TraceContext(
        traceparent=f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}",
        tracestate=context.trace_state.to_header(),
    )


def parent_from(message: common_pb2.TraceContext | None) -> trace.SpanContext | None:
    """The remote parent that a message names, or None if it names none or names it wrongly.

    A trace context comes from outside and is never a reason to refuse a request, so a malformed one
    only starts a new trace.
    """
    if message is None:
        return None
    match = _TRACEPARENT.fullmatch(message.traceparent)
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    context = trace.SpanContext(
        trace_id=int(match[2], 16),
        span_id=int(match[3], 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(match[4], 16)),
        trace_state=TraceState.from_header([message.tracestate] if message.tracestate else []),
    )
    return context if context.is_valid else None


def trace_metadata(message: common_pb2.TraceContext) -> tuple[tuple[str, str], ...]:
    """The same context as call metadata, for proxies and servers that look there.

    What no header could carry is left out: the message has it, and a call that metadata keeps from
    leaving would be lost for the sake of a trace.
    """
    if parent_from(message) is None:
        return ()
    state = message.tracestate
    fits = state and state.isascii() and state.isprintable() and len(state) <= _MAX_TRACESTATE_CHARS
    pairs = (("traceparent", message.traceparent),)
    return (*pairs, ("tracestate", state)) if fits else pairs


def trace_from_metadata(
    metadata: Iterable[tuple[str, str | bytes]],
) -> common_pb2.TraceContext:
    """The context that call metadata names, as it stands there; empty if it names none."""
    found = {name: value for name, value in metadata if isinstance(value, str)}
    return common_pb2.TraceContext(
        traceparent=found.get("traceparent", ""), tracestate=found.get("tracestate", "")
    )
