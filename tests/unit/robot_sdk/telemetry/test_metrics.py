"""Buckets in seconds, and a number of series that does not grow with the fleet."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from robot_sdk.telemetry import TickMetrics, from_providers, metrics


def _metered() -> tuple[metrics.Metrics, InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], views=metrics.views(), shutdown_on_exit=False)
    tracers = TracerProvider(shutdown_on_exit=False)
    return from_providers(tracers, provider).metrics, reader


def _points(reader: InMemoryMetricReader) -> dict[str, list]:
    data = reader.get_metrics_data()
    return {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_e4_latencies_from_10_ms_to_1_5_s_land_in_four_buckets() -> None:
    recorded, reader = _metered()

    for latency_s in (0.010, 0.050, 0.200, 1.5):
        recorded.brain_latency(latency_s)
        recorded.chunk_round_trip(latency_s)

    points = _points(reader)
    for name in (metrics.BRAIN_LATENCY, metrics.CHUNK_ROUND_TRIP):
        (point,) = points[name]
        assert [count for count in point.bucket_counts if count] == [1, 1, 1, 1]


def test_lateness_of_a_tick_is_told_apart_below_a_millisecond() -> None:
    recorded, reader = _metered()

    for lateness_s in (0.00005, 0.0002, 0.0008, 0.004):
        recorded.tick_lateness(lateness_s)

    (point,) = _points(reader)[metrics.TICK_LATENESS]
    assert [count for count in point.bucket_counts if count] == [1, 1, 1, 1]


def test_zero_step_intervals_have_a_bucket_of_their_own() -> None:
    recorded, reader = _metered()

    recorded.env_step_gap(0.0)
    recorded.env_step_gap(0.05)

    (point,) = _points(reader)[metrics.ENV_STEP_GAP]
    assert point.bucket_counts[0] == 1


def test_e5_500_episodes_leave_the_number_of_series_where_it_was() -> None:
    recorded, reader = _metered()

    def episode() -> None:
        recorded.brain_latency(1.0)
        recorded.chunk_round_trip(0.1)
        recorded.tick_lateness(0.001)
        recorded.env_step_gap(0.5)
        for kind in ("acted", "starved", "start_wait", "idle", "overrun"):
            recorded.count_ticks(kind, 3)

    def num_series() -> int:
        return sum(len(points) for points in _points(reader).values())

    episode()
    after_one = num_series()
    for _ in range(499):
        episode()

    assert after_one == 9
    assert num_series() == after_one


def test_ticks_are_counted_by_kind() -> None:
    recorded, reader = _metered()

    recorded.count_ticks("starved")
    recorded.count_ticks("starved", 4)
    recorded.count_ticks("idle", 2)

    points = _points(reader)
    assert points["robot.ticks.starved"][0].value == 5
    assert points["robot.ticks.idle"][0].value == 2


def test_totals_of_the_control_loop_are_counted_once_each() -> None:
    recorded, reader = _metered()
    ticks = TickMetrics(recorded)

    ticks.update(acted=1, starved=0, start_wait=2, idle=0, overrun=0)
    ticks.update(acted=5, starved=3, start_wait=2, idle=0, overrun=0)

    points = _points(reader)
    assert points["robot.ticks.acted"][0].value == 5
    assert points["robot.ticks.starved"][0].value == 3
    assert points["robot.ticks.start_wait"][0].value == 2
    assert "robot.ticks.idle" not in points
