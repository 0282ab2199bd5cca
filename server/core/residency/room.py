"""How much of the engine's pool may be handed out to conversations."""

from __future__ import annotations

from server.core.residency.capacity import PRIOR_SHARE
from server.core.residency.snapshot import LedgerSnapshot

#: Of a pool that nothing but a number speaks for, so much is handed out; then this much more than
#: was seen to survive.
UNPROVEN_SHARE = 0.65
PROVEN_STEP = 1.1
#: Of the room: prefixes that need more of the pool are refreshed.
REFRESH_SHARE = 0.95


def room_blocks(ledger: LedgerSnapshot) -> int | None:
    """Blocks of the pool to hand out. None: nothing speaks for any size.

    PRIOR_SHARE of the pool as measured by the engine's KV usage, whatever is told of it, and less
    as soon as a prefix was lost at a shorter distance. Of an engine without that gauge only little
    more is handed out than was seen to survive.
    """
    told, measured = ledger.pool_blocks, ledger.measured_pool_blocks
    survived, lost = ledger.capacity.survived_blocks, ledger.capacity.lost_blocks
    room: float
    if measured is not None:
        room = PRIOR_SHARE * (measured if told is None else min(measured, told))
    elif told is not None:
        proven = PROVEN_STEP * (survived or 0)
        room = min(PRIOR_SHARE * told, max(UNPROVEN_SHARE * told, proven))
    elif survived is not None:
        room = PROVEN_STEP * survived
    else:
        return None
    return int(room if lost is None else min(room, lost))


def refresh_limit_blocks(room: int | None) -> int | None:
    """What a prefix may need of so much room before it is refreshed; see residency.refresh."""
    return None if room is None else int(REFRESH_SHARE * room)
