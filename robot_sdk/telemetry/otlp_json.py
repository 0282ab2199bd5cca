"""Finished spans as OTLP/JSON: one `ExportTraceServiceRequest` object.

Written from the OTLP 1.x specification ("JSON Protobuf Encoding"): trace and span ids in hex (not
base64), 64-bit integers as decimal strings, enums as numbers, field names in lowerCamelCase, and
doubles that JSON cannot hold as "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

JsonObject = dict[str, object]

#: SpanFlags of trace.proto: bit 8 says that bit 9 (the parent is in another process) is known.
_FLAG_HAS_IS_REMOTE = 0x100
_FLAG_IS_REMOTE = 0x200


def encode_line(spans: Sequence[ReadableSpan], resource: Mapping[str, object]) -> bytes:
    """One line (UTF-8, newline included) that holds `spans` of one process.

    Args:
        spans: Finished spans of any number of scopes, in any order.
        resource: Attributes of the process.
    """
    scopes: dict[tuple[str, str], list[JsonObject]] = {}
    for span in spans:
        scope = span.instrumentation_scope
        key = (scope.name, scope.version or "") if scope is not None else ("", "")
        scopes.setdefault(key, []).append(encode_span(span))
    return join_line(scopes, resource)


def join_line(
    scopes: Mapping[tuple[str, str], Sequence[JsonObject]], resource: Mapping[str, object]
) -> bytes:
    """One line (UTF-8, newline included) of encoded spans, by name and version of their scope."""
    request = {
        "resourceSpans": [
            {
                "resource": {"attributes": encode_attributes(resource)},
                "scopeSpans": [
                    {"scope": {"name": name, "version": version}, "spans": list(encoded)}
                    for (name, version), encoded in scopes.items()
                ],
            }
        ]
    }
    text = json.dumps(request, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate (an undecodable file name, say) is no Unicode text; it becomes "?".
    return text.encode("utf-8", "replace") + b"\n"


def encode_span(span: ReadableSpan) -> JsonObject:
    """One `Span` message."""
    context = span.context
    if context is None:
        raise ValueError(f"span {span.name!r} has no context; only spans of a tracer are written")
    encoded: JsonObject = {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "flags": _flags(context, span.parent),
        "name": span.name,
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time or 0),
        # Spans of other libraries may read the wall clock, which can be set back.
        "endTimeUnixNano": str(max(span.end_time or 0, span.start_time or 0)),
        "attributes": encode_attributes(span.attributes or {}),
        "status": {"code": span.status.status_code.value},
    }
    if span.parent is not None and span.parent.is_valid:
        encoded["parentSpanId"] = f"{span.parent.span_id:016x}"
    if context.trace_state:
        encoded["traceState"] = context.trace_state.to_header()
    if span.status.description:
        encoded["status"] = {
            "code": span.status.status_code.value,
            "message": span.status.description,
        }
    if span.events:
        encoded["events"] = [
            {
                "timeUnixNano": str(event.timestamp),
                "name": event.name,
                "attributes": encode_attributes(event.attributes or {}),
            }
            for event in span.events
        ]
    if span.links:
        encoded["links"] = [
            {
                "traceId": f"{link.context.trace_id:032x}",
                "spanId": f"{link.context.span_id:016x}",
                "attributes": encode_attributes(link.attributes or {}),
            }
            for link in span.links
        ]
    if span.dropped_attributes:
        encoded["droppedAttributesCount"] = span.dropped_attributes
    return encoded


def encode_attributes(attributes: Mapping[str, object]) -> list[JsonObject]:
    """A list of `KeyValue` messages."""
    return [{"key": key, "value": encode_value(value)} for key, value in attributes.items()]


def encode_value(value: object) -> JsonObject:
    """One `AnyValue` message. A type that OTLP does not know is written as its text."""
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):  # before int: a bool is an int
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _non_finite(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"bytesValue": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": encode_attributes(value)}}
    if isinstance(value, Sequence):
        return {"arrayValue": {"values": [encode_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _flags(context: trace.SpanContext, parent: trace.SpanContext | None) -> int:
    flags = int(context.trace_flags) | _FLAG_HAS_IS_REMOTE
    if parent is not None and parent.is_remote:
        flags |= _FLAG_IS_REMOTE
    return flags
