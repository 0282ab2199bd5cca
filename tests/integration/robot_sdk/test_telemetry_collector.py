"""A collector that is down or stands still is nothing that a robot can notice."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass

import grpc
import pytest

from robot_sdk import telemetry
from robot_sdk.errors import InvalidArgumentError, MissingExtraError
from robot_sdk.telemetry.network_sink import OtlpTarget

needs_otlp = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.exporter") is None
    or importlib.util.find_spec("opentelemetry.exporter.otlp.proto.grpc") is None,
    reason="needs the extra [otlp]",
)

#: A 20 Hz loop for 3 s that ends a span and records metrics in every tick, and then just ends. It
#: prints how long the telemetry calls of a tick took at most, and at its very end what was logged.
_ROBOT = """
import atexit, json, logging, sys
from robot_sdk import telemetry
from robot_sdk.clock import SYSTEM_CLOCK

records = []
class Keep(logging.Handler):
    def emit(self, record):
        records.append(record.getMessage())
logging.getLogger().addHandler(Keep())

@atexit.register  # before the telemetry's own handler, so it runs after that
def last_words():
    print(json.dumps({"dropped": source.dropped_spans, "records": records}), flush=True)

source = telemetry.start("robot", otlp_endpoint=sys.argv[1], otlp_protocol=sys.argv[2])
start_s = SYSTEM_CLOCK.now_s()
longest_s = 0.0
for tick in range(60):
    SYSTEM_CLOCK.sleep_until(start_s + tick / 20)
    before_s = SYSTEM_CLOCK.now_s()
    source.record_span("policy.chunk", before_s, before_s, attributes={"tick": tick})
    source.metrics.chunk_round_trip(0.1)
    longest_s = max(longest_s, SYSTEM_CLOCK.now_s() - before_s)
print(longest_s, flush=True)
"""


@dataclass(frozen=True)
class _Outcome:
    """What became of a robot: its longest telemetry call and its exit in seconds, and its words."""

    longest_s: float
    exit_s: float
    dropped: int
    records: list[str]
    stderr: str


def _robot(endpoint: str, protocol: str) -> _Outcome:
    process = subprocess.Popen(
        [sys.executable, "-c", _ROBOT, endpoint, protocol],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )
    try:
        assert process.stdout is not None
        longest_s = float(process.stdout.readline())
        exiting_s = time.monotonic()
        out, stderr = process.communicate(timeout=60)
        exit_s = time.monotonic() - exiting_s
    finally:
        process.kill()
        process.wait()
    return _Outcome(longest_s, exit_s, stderr=stderr, **json.loads(out))


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that is taken and does not listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never says a word, like a stopped collector."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield listener.getsockname()[1]


@needs_otlp
@pytest.mark.faultinjection
@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("kind", ["dead_port", "silent_port"])
def test_e1_no_tick_waits_exit_is_bounded_and_one_warning_is_given(
    kind: str, protocol: str, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip(f"opentelemetry.exporter.otlp.proto.{protocol}.trace_exporter")
    port = request.getfixturevalue(kind)

    outcome = _robot(f"http://127.0.0.1:{port}", protocol)

    # Waiting for the collector would take its timeout of 1.5 s; anything shorter is the machine's.
    assert outcome.longest_s < 1.0
    assert outcome.exit_s <= 5.0
    assert outcome.dropped == 60
    assert len(outcome.records) == 1, outcome.records
    assert "does not answer" in outcome.records[0]
    assert "Traceback" not in outcome.stderr


@needs_otlp
def test_spans_and_metrics_reach_a_collector() -> None:
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    trace_grpc = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc"
    )
    metrics_service = pytest.importorskip(
        "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
    )
    metrics_grpc = pytest.importorskip(
        "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc"
    )
    spans: list[str] = []
    metrics: dict[str, int] = {}

    class Traces(trace_grpc.TraceServiceServicer):
        def Export(self, request, context):
            spans.extend(
                span.name
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            )
            return trace_service.ExportTraceServiceResponse()

    class Metrics(metrics_grpc.MetricsServiceServicer):
        def Export(self, request, context):
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        points = metric.histogram.data_points
                        metrics[metric.name] = len(points[0].explicit_bounds) if points else 0
            return metrics_service.ExportMetricsServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        source = telemetry.start("robot", otlp_endpoint=f"127.0.0.1:{port}")
        source.record_span("turn", 0.0, 1.0)
        source.metrics.brain_latency(1.0)
        assert source.shutdown(10.0)
    finally:
        server.stop(None).wait(10)

    assert spans == ["turn"]
    assert metrics["robot.brain.latency"] == 14
    assert source.dropped_spans == 0


@pytest.mark.parametrize("endpoint", ["", "collector", "ftp://a:1", "http://:4317", "a:b", "h:0x1"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidArgumentError, match="otlp_endpoint"):
        telemetry.start("robot", otlp_endpoint=endpoint)


def test_the_protocol_follows_from_the_port_unless_given() -> None:
    assert OtlpTarget.parse("localhost:4317").protocol == "grpc"
    assert OtlpTarget.parse("http://localhost:4318").protocol == "http"
    assert OtlpTarget.parse("http://localhost:4318", "grpc").protocol == "grpc"


def test_headers_with_a_token_are_not_in_the_repr() -> None:
    assert "secret" not in repr(OtlpTarget.parse("h:1", headers={"authorization": "secret"}))


def test_a_missing_exporter_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'robot-sdk\[otlp\]'"):
        telemetry.start("robot", otlp_endpoint="localhost:4317")
