"""Spans and metrics to an OpenTelemetry collector, which may be down, slow or stopped."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from opentelemetry import context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from robot_sdk.errors import InvalidArgumentError, MissingExtraError
from robot_sdk.telemetry import metrics, quiet

_logger = logging.getLogger(__name__)

#: A collector in the same building answers in milliseconds; at exit two exports may be in the way.
EXPORT_TIMEOUT_S = 1.5
METRIC_INTERVAL_S = 15.0

OtlpProtocol = Literal["grpc", "http"]

_SPAN_EXPORTERS: dict[str, str] = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
    "http": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
}
_METRIC_EXPORTERS: dict[str, str] = {
    "grpc": "opentelemetry.exporter.otlp.proto.grpc.metric_exporter",
    "http": "opentelemetry.exporter.otlp.proto.http.metric_exporter",
}


@dataclass(frozen=True)
class OtlpTarget:
    """Where a collector listens.

    Attributes:
        endpoint: `http://host:4317` (gRPC without TLS), `https://...` (TLS), `host:port` (as http),
            or for OTLP over HTTP a base URL such as `http://host:4318`.
        protocol: "grpc" or "http"; see `parse`.
        headers: Sent with every export, for example a token.
    """

    endpoint: str
    protocol: OtlpProtocol
    # Out of the repr: headers hold tokens.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(
        cls,
        endpoint: str,
        protocol: OtlpProtocol | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> OtlpTarget:
        """Check an endpoint. Without a protocol, port 4318 means "http" and any other "grpc".

        Raises:
            InvalidArgumentError: The endpoint is no URL or address, or the protocol is unknown.
        """
        url = endpoint if "://" in endpoint else f"http://{endpoint}"
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("http", "https") or not parts.hostname or port is None:
            raise InvalidArgumentError(
                "not the address of a collector",
                field="otlp_endpoint",
                value=endpoint,
                allowed=("http://HOST:PORT", "https://HOST:PORT", "HOST:PORT"),
            )
        if protocol is None:
            protocol = "http" if port == 4318 else "grpc"
        if protocol not in _SPAN_EXPORTERS:
            raise InvalidArgumentError(
                "unknown protocol", field="otlp_protocol", value=protocol, allowed=_SPAN_EXPORTERS
            )
        return cls(url.rstrip("/"), protocol, dict(headers or {}))

    def span_exporter(self) -> SpanExporter:
        module = _exporter_module(_SPAN_EXPORTERS[self.protocol], self.protocol)
        exporter: SpanExporter = module.OTLPSpanExporter(**self._arguments("v1/traces"))
        quiet.install()
        return exporter

    def metric_exporter(self) -> MetricExporter:
        module = _exporter_module(_METRIC_EXPORTERS[self.protocol], self.protocol)
        exporter: MetricExporter = module.OTLPMetricExporter(**self._arguments("v1/metrics"))
        quiet.install()
        return exporter

    def require_installed(self) -> None:
        """Raises MissingExtraError, with the command to run, if the exporter is not installed."""
        _exporter_module(_SPAN_EXPORTERS[self.protocol], self.protocol)

    def _arguments(self, signal_path: str) -> dict[str, Any]:
        endpoint = self.endpoint
        if self.protocol == "http" and urlsplit(endpoint).path in ("", "/"):
            endpoint = f"{endpoint.rstrip('/')}/{signal_path}"
        arguments: dict[str, Any] = {"endpoint": endpoint, "timeout": EXPORT_TIMEOUT_S}
        if self.headers:
            arguments["headers"] = dict(self.headers)
        return arguments


def _exporter_module(name: str, protocol: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            "sending telemetry to a collector needs the OTLP exporter for " + protocol,
            hint="run: pip install 'robot-sdk[otlp]'"
            if protocol == "grpc"
            else "run: pip install opentelemetry-exporter-otlp-proto-http",
        ) from error


class Outage:
    """One warning when a collector stops answering, one note when it answers again."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._down = False

    def failed(self, error: Exception | None = None) -> None:
        """An export failed; some exporters raise, others return a failure."""
        with self._lock:
            if self._down:
                return
            self._down = True
        _logger.warning(
            "the telemetry collector at %s does not answer%s; its spans and metrics are dropped "
            "and counted, the program goes on",
            self._endpoint,
            "" if error is None else f" ({type(error).__name__}: {error})",
        )

    def succeeded(self) -> None:
        with self._lock:
            if not self._down:
                return
            self._down = False
        _logger.info("the telemetry collector at %s answers again", self._endpoint)

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()


class NetworkSink:
    """A sink of `QueueProcessor` that sends spans with an OTLP exporter.

    The exporter is made in the writer thread, so that its connection belongs to this process.
    """

    def __init__(self, make_exporter: Callable[[], SpanExporter], outage: Outage) -> None:
        self._make_exporter = make_exporter
        self._outage = outage
        self._exporter: SpanExporter | None = None
        self._parents_exporter: SpanExporter | None = None

    def write(self, spans: Sequence[ReadableSpan], dropped: int) -> int:
        # The exporter's own request must not be traced by instrumentation that feeds spans back.
        token = context.attach(context.set_value("suppress_instrumentation", True))
        try:
            with quiet.muted():
                if self._exporter is None:
                    self._exporter = self._make_exporter()
                result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001  # each exporter has its own
            self._outage.failed(error)
            return len(spans)
        finally:
            context.detach(token)
        if result is SpanExportResult.SUCCESS:
            self._outage.succeeded()
            return 0
        self._outage.failed()
        return len(spans)

    def close(self, dropped: int) -> None:
        if self._exporter is not None:
            with quiet.muted():
                self._exporter.shutdown()

    def abandon(self) -> None:
        self._outage.failed()

    def after_fork_in_child(self) -> None:
        # Kept, not freed: closing the connection here would close it under the parent.
        self._parents_exporter = self._exporter
        self._exporter = None
        self._outage.after_fork_in_child()


class QuietMetricExporter(MetricExporter):
    """A metric exporter whose failures are one warning."""

    def __init__(self, exporter: MetricExporter, outage: Outage) -> None:
        # A reader asks its exporter for these two, and there is no public way to pass them on.
        super().__init__(
            preferred_temporality=exporter._preferred_temporality,  # noqa: SLF001
            preferred_aggregation=exporter._preferred_aggregation,  # noqa: SLF001
        )
        self._exporter = exporter
        self._outage = outage

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        try:
            with quiet.muted():
                result = self._exporter.export(metrics_data, timeout_millis, **kwargs)
        except Exception as error:  # noqa: BLE001  # each exporter has its own
            self._outage.failed(error)
            return MetricExportResult.FAILURE
        if result is MetricExportResult.SUCCESS:
            self._outage.succeeded()
        else:
            self._outage.failed()
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        with quiet.muted():
            self._exporter.shutdown(timeout_millis, **kwargs)


class NetworkMetrics:
    """A meter provider that sends its metrics to a collector, and a shutdown with a limit."""

    def __init__(self, exporter: MetricExporter, resource: Resource, interval_s: float) -> None:
        self._reader = PeriodicExportingMetricReader(
            exporter,
            export_interval_millis=interval_s * 1000,
            export_timeout_millis=EXPORT_TIMEOUT_S * 1000,
        )
        self.provider = MeterProvider(
            [self._reader], resource=resource, shutdown_on_exit=False, views=metrics.views()
        )
        self._closing: threading.Thread | None = None

    def begin_close(self) -> None:
        """Start the last export in the background."""
        if self._closing is None:
            self._closing = threading.Thread(
                target=self._shutdown, name="robot-sdk-metrics-close", daemon=True
            )
            try:
                self._closing.start()
            except RuntimeError:
                pass  # the interpreter is past the point where threads may start

    def finish_close(self, timeout_s: float) -> bool:
        """Wait for the last export. False if the time ran out."""
        if self._closing is None or not self._closing.is_alive():
            return True
        self._closing.join(timeout_s)
        return not self._closing.is_alive()

    def _shutdown(self) -> None:
        with quiet.muted():
            self.provider.shutdown(EXPORT_TIMEOUT_S * 1000)
