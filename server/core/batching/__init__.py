"""Which observations a free policy worker takes, and when robots should ask.

`Batcher` is the seam between a driver and a discipline. The observations that wait are at most one
per stream; see `server.core.batching.line`.
"""

from server.core.batching.fifo import FifoBatcher
from server.core.batching.interface import (
    Accepted,
    Batch,
    Batcher,
    Refused,
    StreamRate,
    TierStatus,
    Verdict,
    Waiting,
)
from server.core.batching.latency_table import STUDY_TABLE, LatencyRow, LatencyTable

__all__ = [
    "STUDY_TABLE",
    "Accepted",
    "Batch",
    "Batcher",
    "FifoBatcher",
    "LatencyRow",
    "LatencyTable",
    "Refused",
    "StreamRate",
    "TierStatus",
    "Verdict",
    "Waiting",
]
