"""The Prometheus page: how full and how fast this server is. No label ever names an episode."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from server.config import TelemetrySection
from server.core.residency import PrefixOutcome
from server.policy_metrics import policy_metrics
from server.rpc.hub import EpisodeHub
from server.rpc.services import Services

_log = logging.getLogger(__name__)

#: Upper bounds, seconds: from a policy on the same machine to a brain that thinks for minutes.
_BUCKETS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip


class PrometheusPage:
    """Serves the page from a thread of its own.

    Raises:
        ImportError: prometheus_client is not installed.
        OSError: The port is in use.
    """

    def __init__(self, section: TelemetrySection, hub: EpisodeHub, services: Services) -> None:
        import prometheus_client
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from server import brain_metrics

        self._families = brain_metrics
        self._gauge = GaugeMetricFamily
        self._counter = CounterMetricFamily
        self._hub = hub
        self._services = services
        registry = prometheus_client.CollectorRegistry()
        registry.register(self)  # type: ignore[arg-type]
        self._chunk_latency = prometheus_client.Histogram(
            "robot_chunk_service_seconds",
            "Time from the arrival of an observation to its chunk",
            ["policy"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._turn_latency = prometheus_client.Histogram(
            "robot_turn_service_seconds",
            "Time from the arrival of a turn to its commit, by what it found of its prefix",
            ["outcome"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        for outcome in PrefixOutcome:
            self._turn_latency.labels(outcome.value)
        assert section.prometheus_port is not None
        self._server, self._thread = prometheus_client.start_http_server(
            section.prometheus_port, section.prometheus_host, registry=registry
        )
        _log.info("metrics on http://%s:%d", section.prometheus_host, self._server.server_port)

    @property
    def port(self) -> int:
        return self._server.server_port

    def observe_chunk(self, policy: str, service_s: float) -> None:
        self._chunk_latency.labels(policy).observe(service_s)

    def observe_turn(self, outcome: PrefixOutcome, service_s: float) -> None:
        self._turn_latency.labels(outcome.value).observe(service_s)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def collect(self) -> Iterator[Any]:
        """Called by prometheus_client at every scrape, in its thread; reads counters only."""
        registry = self._hub.registry
        counters = registry.counters
        yield self._gauge("robot_episodes_active", "Admitted", value=registry.num_active)
        yield self._gauge("robot_episodes_queued", "At the door", value=registry.num_queued)
        yield self._counter("robot_episodes_admitted", "Since start", value=counters.admitted)
        yield self._counter("robot_episodes_ended", "Since start", value=counters.ended)
        yield self._counter("robot_episodes_expired", "Since start", value=counters.expired)
        report = registry.report
        yield from self._families.door_metrics(registry.admission.name, report)
        brain = self._services.brain
        if brain is not None:
            totals = self._services.brain_totals
            yield self._gauge("robot_turns_running", "In the engine", value=brain.num_running)
            yield self._gauge("robot_turns_waiting", "Not started", value=brain.num_waiting)
            yield self._counter("robot_turns_committed", "Since start", value=totals.committed)
            yield self._counter("robot_turns_replayed", "Since start", value=totals.replayed)
            yield self._counter("robot_turns_aborted", "Since start", value=totals.aborted)
            yield from self._families.prefix_metrics(report)
            yield from self._families.engine_metrics(brain, report)
        yield from policy_metrics(self._services.policies, self._gauge, self._counter)
