"""vLLM's own scheduler and block pool with the model left out, stepped in virtual time.

What a fleet needs to know of an engine is which prefixes survive and what has to be computed. Both
are decided by the scheduler and the block pool, which need no model, no GPU and no process.

Everything that touches vLLM's inner parts is in `library`, which refuses versions it is not tested
with. The vLLM that Python finds is used; `study_version` puts the study's own in front of it.
"""

from server.capacity.engine.scheduler_only import (
    DecodeStretch,
    FinishedTurn,
    ScheduledTokens,
    SchedulerOnlyEngine,
    Step,
    Turn,
)
from server.capacity.engine.session_blocks import SessionBlocks
from server.capacity.engine.settings import EVERY_SNAPSHOT, LATEST_SNAPSHOT, EngineSettings

__all__ = [
    "EVERY_SNAPSHOT",
    "LATEST_SNAPSHOT",
    "DecodeStretch",
    "EngineSettings",
    "FinishedTurn",
    "ScheduledTokens",
    "SchedulerOnlyEngine",
    "SessionBlocks",
    "Step",
    "Turn",
]
