"""The telemetry of one process: finished spans with explicit times and explicit parents."""

from __future__ import annotations

import atexit
import functools
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from opentelemetry import metrics as otel_metrics
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry.anchor import TimeAnchor
from robot_sdk.telemetry.context import Parent, parent_context
from robot_sdk.telemetry.file_sink import FileSink
from robot_sdk.telemetry.ids import PrivateRandomIds
from robot_sdk.telemetry.metrics import Metrics
from robot_sdk.telemetry.network_sink import (
    METRIC_INTERVAL_S,
    NetworkMetrics,
    NetworkSink,
    OtlpProtocol,
    OtlpTarget,
    Outage,
    QuietMetricExporter,
)
from robot_sdk.telemetry.open_span import Attributes, OpenSpan, known
from robot_sdk.telemetry.processor import DEFAULT_CAPACITY, QueueProcessor, Sink
from robot_sdk.version import __version__

#: Instrumentation scope of all spans and metrics of this package.
SCOPE = "robot_sdk"
#: Longest time that telemetry may add to the exit of a process, all exporters together.
DEFAULT_EXIT_TIMEOUT_S = 4.0


class Telemetry:
    """Spans and metrics of one process. Made by `start` or `from_providers`.

    Thread-safe. No method but `flush` and `shutdown` ever waits, and those wait only as long as
    they are told to.

    Attributes:
        tracer: The OpenTelemetry tracer behind it.
        metrics: The instruments; they cost next to nothing when no exporter was asked for.
        clock: The clock whose seconds all span times are given in.
    """

    def __init__(
        self,
        tracer: trace.Tracer,
        metrics: Metrics,
        *,
        clock: Clock = SYSTEM_CLOCK,
        anchor: TimeAnchor | None = None,
        processors: tuple[QueueProcessor, ...] = (),
        network_metrics: NetworkMetrics | None = None,
        file: FileSink | None = None,
    ) -> None:
        self.tracer = tracer
        self.metrics = metrics
        self.clock = clock
        self._anchor = TimeAnchor.take(clock) if anchor is None else anchor
        self._processors = processors
        self._network_metrics = network_metrics
        self._file = file
        self._exit_hook: Callable[[], object] | None = None

    @property
    def anchor(self) -> TimeAnchor:
        """How the monotonic clock of this process relates to Unix time on its spans."""
        return self._anchor

    @property
    def trace_path(self) -> Path | None:
        """The trace file of this process, None without a run folder."""
        return None if self._file is None else self._file.path

    @property
    def dropped_spans(self) -> int:
        """Finished spans that one of the exporters lost. 0 if all is well."""
        return max((processor.dropped_spans for processor in self._processors), default=0)

    def start_span(
        self,
        name: str,
        start_s: float | None = None,
        *,
        parent: Parent = None,
        attributes: Attributes | None = None,
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
    ) -> OpenSpan:
        """Start a span that somebody will end.

        Args:
            name: See `robot_sdk.telemetry.attributes`.
            start_s: Seconds of the process's monotonic clock; None: now.
            parent: A span, its context, or None for a new trace. The running context is not used.
            attributes: Values of None are left off.
            kind: CLIENT for a call to another process, SERVER for the work it causes there.
        """
        start_s = self.clock.now_s() if start_s is None else start_s
        span = self.tracer.start_span(
            name,
            context=parent_context(parent),
            kind=kind,
            attributes=known(attributes or {}),
            start_time=self._anchor.to_unix_ns(start_s),
        )
        return OpenSpan(span, self._anchor, self.clock, start_s)

    def record_span(
        self,
        name: str,
        start_s: float,
        end_s: float,
        *,
        parent: Parent = None,
        attributes: Attributes | None = None,
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
        error: BaseException | str | None = None,
    ) -> trace.SpanContext:
        """Record something that has already happened. Arguments as for `start_span` and `end`.

        Returns:
            The ids of the new span, for children.
        """
        span = self.start_span(name, start_s, parent=parent, attributes=attributes, kind=kind)
        span.end(end_s, error=error)
        return span.context

    def flush(self, timeout_s: float = DEFAULT_EXIT_TIMEOUT_S) -> bool:
        """Wait until all spans that have ended are written. False if the time ran out."""
        deadline_s = SYSTEM_CLOCK.now_s() + timeout_s
        results = [
            processor.flush(max(0.0, deadline_s - SYSTEM_CLOCK.now_s()))
            for processor in self._processors
        ]
        return all(results)

    def shutdown(self, timeout_s: float = DEFAULT_EXIT_TIMEOUT_S) -> bool:
        """Write what is left and stop; called by itself at the exit of the process.

        Returns:
            False if the time ran out; the spans that are left are dropped. A second call does
            nothing.
        """
        if self._exit_hook is not None:
            atexit.unregister(self._exit_hook)
            self._exit_hook = None
        deadline_s = SYSTEM_CLOCK.now_s() + timeout_s
        if self._network_metrics is not None:
            self._network_metrics.begin_close()
        results = [
            processor.close(max(0.0, deadline_s - SYSTEM_CLOCK.now_s()))
            for processor in self._processors
        ]
        if self._network_metrics is not None:
            remaining_s = max(0.0, deadline_s - SYSTEM_CLOCK.now_s())
            results.append(self._network_metrics.finish_close(remaining_s))
        return all(results)

    def shut_down_at_exit(self, timeout_s: float = DEFAULT_EXIT_TIMEOUT_S) -> None:
        """Call `shutdown` when the interpreter exits, unless it was called before."""
        self._exit_hook = functools.partial(self.shutdown, timeout_s)
        atexit.register(self._exit_hook)


def start(
    service: str,
    run_folder: Path | str | None = None,
    otlp_endpoint: str | None = None,
    *,
    otlp_protocol: OtlpProtocol | None = None,
    otlp_headers: Mapping[str, str] | None = None,
    resource_attributes: Attributes | None = None,
    clock: Clock = SYSTEM_CLOCK,
    set_global: bool = False,
    queue_capacity: int = DEFAULT_CAPACITY,
    metric_interval_s: float = METRIC_INTERVAL_S,
    exit_timeout_s: float = DEFAULT_EXIT_TIMEOUT_S,
) -> Telemetry:
    """Start the telemetry of this process. It shuts itself down at exit.

    Args:
        service: Name of this process, for example "robot-0". Unique within the run folder.
        run_folder: Where `<service>.trace.jsonl` is written; made if missing. None: no file.
        otlp_endpoint: Collector to send spans and metrics to, for example `http://host:4317`.
            None: none. Needs the extra `[otlp]`.
        otlp_protocol: "grpc" or "http"; None: "http" on port 4318, else "grpc".
        otlp_headers: Sent with every export.
        resource_attributes: About this process; values of None are left off.
        clock: The clock whose seconds span times are given in.
        set_global: Also make these providers the global ones of OpenTelemetry. Only for programs
            that own their process; a library must leave it off.
        queue_capacity: Finished spans that may wait for each exporter; more are dropped, counted.
        metric_interval_s: How often metrics are sent.
        exit_timeout_s: Longest time that the exit of the process waits for exporters.

    Raises:
        InvalidArgumentError: The name is empty, or the endpoint is not an address.
        MissingExtraError: An endpoint is given and the exporter is not installed.
    """
    if not service.strip():
        raise InvalidArgumentError(
            "the service needs a name", field="service", value=repr(service), allowed=("robot-0",)
        )
    anchor = TimeAnchor.take(clock)
    resource = Resource.create(
        {
            attr.SERVICE_NAME: service,
            attr.SERVICE_VERSION: __version__,
            attr.HOST_NAME: socket.gethostname(),
            attr.CLOCK_ANCHOR_UNIX_NS: anchor.unix_ns,
            attr.CLOCK_ANCHOR_MONOTONIC_NS: anchor.monotonic_ns,
            **known(resource_attributes or {}),
        }
    )
    sinks: list[Sink] = []
    file: FileSink | None = None
    if run_folder is not None:
        file = FileSink(Path(run_folder), service, resource.attributes, anchor, clock)
        sinks.append(file)
    network_metrics: NetworkMetrics | None = None
    if otlp_endpoint is not None:
        target = OtlpTarget.parse(otlp_endpoint, otlp_protocol, otlp_headers)
        target.require_installed()
        outage = Outage(target.endpoint)
        sinks.append(NetworkSink(target.span_exporter, outage))
        network_metrics = NetworkMetrics(
            QuietMetricExporter(target.metric_exporter(), outage), resource, metric_interval_s
        )
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=resource,
        shutdown_on_exit=False,
        id_generator=PrivateRandomIds(),
    )
    processors = tuple(
        QueueProcessor(sink, name=f"robot-sdk-{type(sink).__name__}", capacity=queue_capacity)
        for sink in sinks
    )
    for processor in processors:
        provider.add_span_processor(processor)
    meter_provider: otel_metrics.MeterProvider = (
        otel_metrics.NoOpMeterProvider() if network_metrics is None else network_metrics.provider
    )
    if set_global:
        trace.set_tracer_provider(provider)
        otel_metrics.set_meter_provider(meter_provider)
    telemetry = Telemetry(
        provider.get_tracer(SCOPE, __version__),
        Metrics(meter_provider.get_meter(SCOPE, __version__)),
        clock=clock,
        anchor=anchor,
        processors=processors,
        network_metrics=network_metrics,
        file=file,
    )
    telemetry.shut_down_at_exit(exit_timeout_s)
    return telemetry


def from_providers(
    tracer_provider: trace.TracerProvider,
    meter_provider: otel_metrics.MeterProvider | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Telemetry:
    """Telemetry through providers that the surrounding program owns, exports and shuts down.

    For second-scaled histograms make the meter provider with `robot_sdk.telemetry.metrics.views()`.
    """
    meters = otel_metrics.NoOpMeterProvider() if meter_provider is None else meter_provider
    return Telemetry(
        tracer_provider.get_tracer(SCOPE, __version__),
        Metrics(meters.get_meter(SCOPE, __version__)),
        clock=clock,
    )


def no_telemetry(clock: Clock = SYSTEM_CLOCK) -> Telemetry:
    """Telemetry that records nothing, for code that need not ask whether there is one."""
    return from_providers(trace.NoOpTracerProvider(), clock=clock)
