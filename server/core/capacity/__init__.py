"""How many robots a box carries: rules of the brain tier and of the action tier."""

from server.core.capacity.action import (
    STUDY_EXECUTED_STEPS,
    ActionCapacity,
    chunk_deadline_s,
    paced_by_arrival,
    paced_by_step,
    unpaced,
)
from server.core.capacity.brain import (
    CLIFF_FRACTION,
    START_FRACTION,
    KvPool,
    cliff_sessions,
    prefill_snapshots,
    session_blocks,
    sessions_that_fit,
    starting_cap,
    turns_per_s,
)
from server.core.capacity.envelope import Envelope, Tier, envelope
from server.core.capacity.sharing import robots_sharing

__all__ = [
    "CLIFF_FRACTION",
    "START_FRACTION",
    "STUDY_EXECUTED_STEPS",
    "ActionCapacity",
    "Envelope",
    "KvPool",
    "Tier",
    "chunk_deadline_s",
    "cliff_sessions",
    "envelope",
    "paced_by_arrival",
    "paced_by_step",
    "prefill_snapshots",
    "robots_sharing",
    "session_blocks",
    "sessions_that_fit",
    "starting_cap",
    "turns_per_s",
    "unpaced",
]
