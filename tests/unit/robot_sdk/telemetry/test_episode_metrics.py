"""What the spans of an episode say, its metrics say too."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from robot_sdk.agent import Gap
from robot_sdk.clock import VirtualClock
from robot_sdk.episode_trace import EpisodeTrace
from robot_sdk.loop_state import LoopState
from robot_sdk.messages import BrainTiming, TokenUsage, TurnResult
from robot_sdk.policy_source import ChunkRecord
from robot_sdk.telemetry import from_providers, metrics


def test_decisions_gaps_and_chunks_are_measured() -> None:
    reader = InMemoryMetricReader()
    telemetry = from_providers(
        TracerProvider(shutdown_on_exit=False),
        MeterProvider([reader], views=metrics.views(), shutdown_on_exit=False),
        VirtualClock(0.0),
    )
    trace = EpisodeTrace(telemetry, telemetry.start_span("episode"), 20.0, LoopState)
    turn = TurnResult(0, "", "", (), "stop", TokenUsage(), BrainTiming(), 1.0, 3.5)

    for gap in (Gap(0), Gap(1, steps=30, wall_s=4.0)):
        with trace.turn(gap.turn_index), trace.decide(gap, ()) as decide:
            decide.answered(turn)
    chunks = trace.chunks("flow")
    for sequence, received_s in ((0, 10.25), (1, None)):
        chunks.sent(sequence)
        chunks.ended(
            ChunkRecord(sequence, 0, "merged", sent_s=10.0, received_s=received_s, rows=10)
        )

    data = reader.get_metrics_data()
    sums = {
        metric.name: (metric.data.data_points[0].count, metric.data.data_points[0].sum)
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert sums == {
        metrics.BRAIN_LATENCY: (2, 5.0),
        metrics.ENV_STEP_GAP: (1, 1.5),
        metrics.CHUNK_ROUND_TRIP: (1, 0.25),
    }
