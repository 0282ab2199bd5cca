"""Spans and metrics of a robot program or a server.

    telemetry = start("robot-0", run_folder="out/run")
    episode = telemetry.start_span("episode", attributes={attributes.ROBOT_ID: "robot-0"})
    telemetry.record_span("turn", started_s, ended_s, parent=episode)
    episode.end()

Times are seconds of the process's monotonic clock. Parents are explicit. Nothing but `flush` and
`shutdown` waits for anything.
"""

from robot_sdk.telemetry import attributes, spans
from robot_sdk.telemetry.context import (
    Parent,
    parent_from,
    trace_context,
    trace_from_metadata,
    trace_metadata,
)
from robot_sdk.telemetry.file_sink import TRACE_SUFFIX
from robot_sdk.telemetry.metrics import Metrics
from robot_sdk.telemetry.open_span import Attributes, AttributeValue, OpenSpan
from robot_sdk.telemetry.setup import Telemetry, from_providers, no_telemetry, start
from robot_sdk.telemetry.signals import exit_on_sigterm
from robot_sdk.telemetry.tick_metrics import TickMetrics

__all__ = [
    "TRACE_SUFFIX",
    "AttributeValue",
    "Attributes",
    "Metrics",
    "OpenSpan",
    "Parent",
    "Telemetry",
    "TickMetrics",
    "attributes",
    "exit_on_sigterm",
    "from_providers",
    "no_telemetry",
    "parent_from",
    "spans",
    "start",
    "trace_context",
    "trace_from_metadata",
    "trace_metadata",
]
