"""Which observations a free policy worker takes, and when robots should ask.

`Batcher` is the seam between a driver and a discipline, `make_batcher` builds one by name. At most
one observation per stream waits; see `server.core.batching.line`.
"""

from server.core.batching.build import BATCHER_NAMES, make_batcher
from server.core.batching.deadline import DeadlineBatcher
from server.core.batching.edf import EdfBatcher
from server.core.batching.fifo import FifoBatcher
from server.core.batching.interface import (
    HIGHEST_CONTROL_HZ,
    LOWEST_CONTROL_HZ,
    Accepted,
    Batch,
    Batcher,
    BatchLatency,
    Refused,
    StreamRate,
    TierStatus,
    TooSlow,
    Verdict,
    Waiting,
)
from server.core.batching.latency_learner import LatencyLearner
from server.core.batching.latency_table import STUDY_TABLE, LatencyRow, LatencyTable
from server.core.batching.lookahead import LookaheadBatcher
from server.core.batching.round_robin import RoundRobinBatcher

__all__ = [
    "BATCHER_NAMES",
    "HIGHEST_CONTROL_HZ",
    "LOWEST_CONTROL_HZ",
    "STUDY_TABLE",
    "Accepted",
    "Batch",
    "BatchLatency",
    "Batcher",
    "DeadlineBatcher",
    "EdfBatcher",
    "FifoBatcher",
    "LatencyLearner",
    "LatencyRow",
    "LatencyTable",
    "LookaheadBatcher",
    "Refused",
    "RoundRobinBatcher",
    "StreamRate",
    "TierStatus",
    "TooSlow",
    "Verdict",
    "Waiting",
    "make_batcher",
]
