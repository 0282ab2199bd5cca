"""Reads the trace files of a run and prints the three clocks."""

from robot_sdk.trace.join import EpisodeTrace, JoinedRun, join
from robot_sdk.trace.reader import RunFolder, SpanRecord, read_folder
from robot_sdk.trace.report import Report, build_report
from robot_sdk.trace.table import render

__all__ = [
    "EpisodeTrace",
    "JoinedRun",
    "Report",
    "RunFolder",
    "SpanRecord",
    "build_report",
    "join",
    "read_folder",
    "render",
]
