"""The lines follow the OTLP/JSON mapping: checked against OpenTelemetry's own messages."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk import telemetry
from robot_sdk.clock import VirtualClock
from robot_sdk.telemetry.otlp_json import encode_value

_HEX_IDS = ("traceId", "spanId", "parentSpanId")


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _write(folder: Path) -> Path:
    clock = VirtualClock(7.0)
    source = telemetry.start("robot", folder, clock=clock, resource_attributes={"fleet": "lab"})
    parent = source.start_span("episode", attributes={"n": 2**53 + 1, "x": 0.5, "yes": True})
    source.record_span(
        "brain.decide",
        7.0,
        8.5,
        parent=telemetry.parent_from(telemetry.trace_context(parent)),
        error="lost",
        attributes={"text": "räum\u2028auf\n"},
    )
    clock.advance(2.0)
    parent.end()
    source.shutdown()
    path = source.trace_path
    assert path is not None
    return path


def test_every_line_parses_as_the_official_request_message(tmp_path: Path) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    span_fields = pytest.importorskip(
        "opentelemetry.proto.trace.v1.trace_pb2"
    ).Span.DESCRIPTOR.fields_by_name
    if "flags" not in span_fields:
        pytest.skip("this opentelemetry-proto is older than Span.flags (OTLP 1.1)")
    spans = {}
    for line in _lines(_write(tmp_path)):
        # The one difference to protobuf's own mapping: OTLP writes ids in hex, not in base64.
        for scope in line["resourceSpans"][0]["scopeSpans"]:
            for span in scope["spans"]:
                for key in _HEX_IDS:
                    if key in span:
                        span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        message = json_format.ParseDict(
            line, service.ExportTraceServiceRequest(), ignore_unknown_fields=False
        )
        for resource_spans in message.resource_spans:
            for scope in resource_spans.scope_spans:
                spans.update({span.name: span for span in scope.spans})

    episode, decide = spans["episode"], spans["brain.decide"]
    assert len(episode.trace_id) == 16
    assert decide.parent_span_id == episode.span_id
    assert episode.end_time_unix_nano - episode.start_time_unix_nano == 2_000_000_000
    assert decide.status.code == 2
    assert decide.status.message == "lost"
    assert decide.flags & 0x300 == 0x300  # the parent is known to be remote
    assert episode.flags & 0x300 == 0x100
    attributes = {pair.key: pair.value for pair in episode.attributes}
    assert attributes["n"].int_value == 2**53 + 1
    assert attributes["x"].double_value == 0.5
    assert attributes["yes"].bool_value is True


def test_ids_are_hex_and_64_bit_integers_are_strings(tmp_path: Path) -> None:
    (span,) = [
        span
        for line in _lines(_write(tmp_path))
        for scope in line["resourceSpans"][0]["scopeSpans"]
        for span in scope["spans"]
        if span["name"] == "episode"
    ]

    assert len(span["traceId"]) == 32
    assert int(span["spanId"], 16)
    assert isinstance(span["startTimeUnixNano"], str)
    assert span["kind"] == 1
    assert {"key": "n", "value": {"intValue": str(2**53 + 1)}} in span["attributes"]


def test_text_with_line_breaks_stays_on_one_line(tmp_path: Path) -> None:
    path = _write(tmp_path)

    for line in path.read_bytes().split(b"\n")[:-1]:
        json.loads(line)


def test_the_process_is_described_in_the_resource(tmp_path: Path) -> None:
    resource = _lines(_write(tmp_path))[0]["resourceSpans"][0]["resource"]

    keys = {pair["key"] for pair in resource["attributes"]}
    assert {
        "service.name",
        "service.instance.id",
        "process.pid",
        "host.name",
        "robot.clock.anchor_unix_ns",
        "robot.clock.anchor_monotonic_ns",
        "fleet",
    } <= keys


@given(st.floats())
def test_any_double_becomes_valid_json(value: float) -> None:
    encoded = json.loads(json.dumps(encode_value(value), allow_nan=False))["doubleValue"]

    assert float(encoded) == value or math.isnan(value)


@settings(max_examples=50)
@given(
    st.recursive(
        st.one_of(st.text(), st.booleans(), st.integers(), st.binary(), st.none()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_any_attribute_value_can_be_encoded(value: object) -> None:
    encoded = encode_value(value)

    assert len(encoded) == 1
    json.dumps(encoded)


def test_e6_a_foreign_span_over_a_wall_clock_that_was_set_back_has_no_negative_duration(
    tmp_path: Path,
) -> None:
    source = telemetry.start("robot", tmp_path)
    source.tracer.start_span("foreign", start_time=2_000_000_000).end(end_time=1_000_000_000)
    source.shutdown()
    assert source.trace_path is not None

    spans = [
        span
        for line in _lines(source.trace_path)
        for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]
        if span["name"] == "foreign"
    ]

    assert [(s["startTimeUnixNano"], s["endTimeUnixNano"]) for s in spans] == [
        ("2000000000", "2000000000")
    ]
