"""Times, parents and attributes of spans."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace as otel_trace

from robot_sdk import telemetry
from robot_sdk.api.v1 import brain_pb2, common_pb2, policy_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.telemetry import anchor as anchor_module
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry import spans
from robot_sdk.trace import read_folder


def _read(folder: Path) -> dict:
    return {span.name: span for span in read_folder(folder).spans}


def test_a_span_keeps_its_explicit_times_to_the_microsecond(tmp_path: Path) -> None:
    clock = VirtualClock(1e6)
    source = telemetry.start("robot", tmp_path, clock=clock)

    source.record_span("turn", 1e6 + 1.25, 1e6 + 3.5)
    source.shutdown()

    span = _read(tmp_path)["turn"]
    assert span.duration_s == pytest.approx(2.25, abs=1e-6)
    assert span.start_ns - source.anchor.unix_ns == pytest.approx(1.25e9, abs=1e3)


def test_e6_b7_a_wall_clock_step_inside_a_span_does_not_change_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock(10.0)
    wall_ns = iter([5_000 * 10**9, 4_000 * 10**9, 3_000 * 10**9])
    monkeypatch.setattr(anchor_module, "wall_unix_ns", lambda: next(wall_ns))
    source = telemetry.start("robot", tmp_path, clock=clock)

    outer = source.start_span("outer")
    clock.advance(1.0)
    source.start_span("inner", parent=outer).end()
    clock.advance(1.0)
    outer.end()
    source.shutdown()

    read = _read(tmp_path)
    assert read["outer"].duration_s == 2.0
    assert read["inner"].start_ns - read["outer"].start_ns == 10**9


def test_e6_an_end_before_the_start_gives_length_zero(tmp_path: Path) -> None:
    source = telemetry.start("robot", tmp_path, clock=VirtualClock(10.0))

    source.record_span("turn", 12.0, 11.0)
    source.shutdown()

    assert _read(tmp_path)["turn"].duration_s == 0.0


def test_unknown_attributes_are_left_off_and_zero_is_not_unknown(tmp_path: Path) -> None:
    source = telemetry.start("robot", tmp_path)

    source.record_span("turn", 0.0, 1.0, attributes={"zero": 0, "unknown": None, "no": False})
    source.shutdown()

    assert _read(tmp_path)["turn"].attributes == {"zero": 0, "no": False}


def test_parents_are_explicit_and_the_ambient_span_is_not_one(tmp_path: Path) -> None:
    source = telemetry.start("robot", tmp_path)
    ambient = source.tracer.start_span("ambient")
    token = otel_context.attach(otel_trace.set_span_in_context(ambient))
    try:
        source.record_span("alone", 0.0, 1.0)
        parent = source.start_span("parent")
        source.record_span("child", 0.0, 1.0, parent=parent)
        parent.end()
    finally:
        otel_context.detach(token)
    ambient.end()
    source.shutdown()

    read = _read(tmp_path)
    assert read["alone"].parent_id is None
    assert read["child"].parent_id == read["parent"].span_id
    assert read["child"].trace_id == read["parent"].trace_id


def test_e3_an_abandoned_generator_leaves_no_context_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = telemetry.start("robot", tmp_path)

    def stream():
        span = source.start_span("brain.decide")
        try:
            yield 1
            yield 2
        finally:
            span.end()

    before = otel_trace.get_current_span()
    for _ in stream():
        assert otel_trace.get_current_span() is before
        break
    source.shutdown()

    assert list(_read(tmp_path)) == ["brain.decide"]
    assert caplog.records == []


def test_a_second_end_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock(0.0)
    source = telemetry.start("robot", tmp_path, clock=clock)
    span = source.start_span("turn")

    span.end(1.0)
    span.end(9.0, attributes={"late": True})
    source.shutdown()

    assert _read(tmp_path)["turn"].duration_s == 1.0
    assert caplog.records == []


def test_an_error_marks_the_span_as_failed(tmp_path: Path) -> None:
    source = telemetry.start("robot", tmp_path)

    source.record_span("turn", 0.0, 1.0, error=ValueError("bad grip"))
    source.shutdown()

    assert _read(tmp_path)["turn"].error == "ValueError: bad grip"


def test_context_travels_through_a_message_and_back(tmp_path: Path) -> None:
    robot = telemetry.start("robot", tmp_path)
    server = telemetry.start("server", tmp_path)
    decide = robot.start_span("brain.decide")

    wire = telemetry.trace_context(decide).SerializeToString()
    parent = telemetry.parent_from(common_pb2.TraceContext.FromString(wire))
    server.record_span("server.decide", 0.0, 1.0, parent=parent)
    decide.end()
    robot.shutdown()
    server.shutdown()

    read = _read(tmp_path)
    assert read["server.decide"].parent_id == read["brain.decide"].span_id
    assert read["server.decide"].trace_id == read["brain.decide"].trace_id


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00",
        "garbage",
        "00-" + "0" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "1" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "1" * 16 + "-01-more",
        "00-" + "A" * 32 + "-" + "1" * 16 + "-01",
    ],
)
def test_a_malformed_trace_parent_starts_a_new_trace(traceparent: str) -> None:
    assert telemetry.parent_from(common_pb2.TraceContext(traceparent=traceparent)) is None


def test_context_travels_through_metadata_and_back(tmp_path: Path) -> None:
    parent = f"00-{7:032x}-{9:016x}-01"
    message = common_pb2.TraceContext(traceparent=parent, tracestate="vendor=a, other=b")

    metadata = telemetry.trace_metadata(message)

    assert telemetry.trace_from_metadata([("authorization", "x"), *metadata]) == message
    assert telemetry.trace_from_metadata([("traceparent", b"bytes")]) == common_pb2.TraceContext()


@pytest.mark.parametrize(
    ("traceparent", "tracestate", "names"),
    [
        ("", "", []),
        ("nonsense", "vendor=a", []),
        (f"00-{7:032x}-{9:016x}-01", "vendor=\u4f60", ["traceparent"]),
        (f"00-{7:032x}-{9:016x}-01", "a=1\nb=2", ["traceparent"]),
        (f"00-{7:032x}-{9:016x}-01", "a=" + "1" * 20_000, ["traceparent"]),
    ],
)
def test_a13_what_no_metadata_could_carry_stays_in_the_message(
    traceparent: str, tracestate: str, names: list[str]
) -> None:
    message = common_pb2.TraceContext(traceparent=traceparent, tracestate=tracestate)

    assert [name for name, _ in telemetry.trace_metadata(message)] == names


def test_an_unsampled_remote_parent_does_not_lose_our_spans(tmp_path: Path) -> None:
    source = telemetry.start("server", tmp_path)
    parent = telemetry.parent_from(
        common_pb2.TraceContext(traceparent=f"00-{'1' * 32}-{'2' * 16}-00")
    )

    source.record_span("server.decide", 0.0, 1.0, parent=parent)
    source.shutdown()

    assert _read(tmp_path)["server.decide"].parent_id == "2" * 16


def test_no_telemetry_accepts_everything_and_passes_a_remote_parent_on() -> None:
    nothing = telemetry.no_telemetry()
    remote = telemetry.parent_from(
        common_pb2.TraceContext(traceparent=f"00-{'1' * 32}-{'2' * 16}-01")
    )

    span = nothing.start_span("turn", parent=remote, attributes={"a": 1})
    span.set({"b": None})
    span.end()
    nothing.metrics.brain_latency(1.0)

    assert telemetry.trace_context(nothing.start_span("turn")).traceparent == ""
    assert nothing.flush(0.0)
    assert nothing.shutdown(0.0)
    assert (nothing.dropped_spans, nothing.trace_path) == (0, None)


def test_two_robots_with_one_random_seed_have_different_ids(tmp_path: Path) -> None:
    source = telemetry.start("robot", tmp_path)

    random.seed(0)
    first = source.record_span("turn", 0.0, 1.0)
    random.seed(0)
    second = source.record_span("turn", 0.0, 1.0)
    source.shutdown()

    assert first.trace_id != second.trace_id
    assert first.span_id != second.span_id


def test_no_global_provider_is_set_by_default(tmp_path: Path) -> None:
    before = otel_trace.get_tracer_provider()

    telemetry.start("robot", tmp_path).shutdown()

    assert otel_trace.get_tracer_provider() is before


def test_a_service_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="service"):
        telemetry.start(" ")


def test_decide_attributes_tell_zero_from_unknown() -> None:
    attributes = spans.decide(
        turn_index=0,
        latency_s=2.0,
        usage=brain_pb2.TokenUsage(input_tokens=5, cached_tokens=0, estimated=True),
        timing=brain_pb2.BrainTiming(
            server_received_ns=10**9, server_done_ns=25 * 10**8, queue_s=0.0
        ),
        finish_reason=brain_pb2.FINISH_REASON_LENGTH,
    )

    assert attributes[attr.TOKENS_CACHED] == 0
    assert attr.TOKENS_COMPUTED not in attributes
    assert attributes[attr.TOKENS_ESTIMATED] is True
    assert attributes[attr.BRAIN_QUEUE_S] == 0.0
    assert attr.BRAIN_PREFILL_S not in attributes
    assert attributes[attr.BRAIN_SERVER_S] == pytest.approx(1.5)
    assert attributes[attr.BRAIN_NETWORK_S] == pytest.approx(0.5)
    assert attributes[attr.BRAIN_FINISH_REASON] == "length"


def test_a_wait_for_an_absent_brain_is_no_time_on_the_network() -> None:
    attributes = spans.decide(
        turn_index=0,
        latency_s=26.5,
        unavailable_s=25.0,
        timing=brain_pb2.BrainTiming(server_received_ns=10**9, server_done_ns=2 * 10**9),
    )

    assert attributes[attr.BRAIN_UNAVAILABLE_S] == pytest.approx(25.0)
    assert attributes[attr.BRAIN_NETWORK_S] == pytest.approx(0.5)


def test_decide_attributes_are_the_same_from_wire_and_dataclass() -> None:
    messages = pytest.importorskip("robot_sdk.messages")
    wire = spans.decide(
        turn_index=3,
        usage=brain_pb2.TokenUsage(input_tokens=5, new_tokens=2),
        timing=brain_pb2.BrainTiming(
            server_received_ns=1, server_done_ns=10**9, time_to_first_token_s=0.3
        ),
        finish_reason=brain_pb2.FINISH_REASON_STOP,
    )

    plain = spans.decide(
        turn_index=3,
        usage=messages.TokenUsage(input_tokens=5, new_tokens=2),
        timing=messages.BrainTiming(
            server_received_ns=1, server_done_ns=10**9, time_to_first_token_s=0.3
        ),
        finish_reason="stop",
    )

    assert wire == plain


def test_chunk_attributes_leave_unmeasured_parts_off() -> None:
    attributes = spans.chunk(
        sequence=0,
        control_step=7,
        round_trip_s=0.25,
        timing=policy_pb2.PolicyTiming(infer_s=0.16, batch_size=2),
    )

    assert attributes == {
        attr.CHUNK_SEQUENCE: 0,
        attr.CHUNK_CONTROL_STEP: 7,
        attr.CHUNK_ROUND_TRIP_S: 0.25,
        attr.CHUNK_INFER_S: 0.16,
        attr.CHUNK_BATCH_SIZE: 2,
    }


def test_the_env_step_gap_needs_steps_and_rate() -> None:
    assert spans.gap(env_steps=30, control_hz=20.0, wall_s=None)[attr.GAP_ENV_S] == 1.5
    assert attr.GAP_ENV_S not in spans.gap(env_steps=30, control_hz=None, wall_s=2.0)


def test_every_attribute_name_is_spelled_once() -> None:
    names = [
        value for key, value in vars(attr).items() if key.isupper() and not key.startswith("SPAN_")
    ]

    assert len(names) == len(set(names))
