"""When a chunk must be there, so that its robot does not starve."""

from __future__ import annotations

from typing import Any

from server.core.batching.interface import StreamRate, Waiting


def due_s(item: Waiting[Any], rate: StreamRate | None, taken_s: float | None = None) -> float:
    """Time at which the rows that the robot has run out, on the server's clock.

    A robot that has no rows left (it starts, or starves already) is due one cycle after its
    observation: by then half of the new chunk's rows would be spent. The same holds where the
    number of rows is unknown. It has a chunk's rows at most, whatever it says. Without a rate: when
    the observation expires.

    Args:
        item: The observation.
        rate: Of its stream; None: the stream did not say.
        taken_s: When the observation's control step began, as far as the server can know it. None:
            when the observation arrived.
    """
    start_s = item.arrived_s if taken_s is None else taken_s
    if rate is None:
        return float("inf") if item.expires_at_s is None else item.expires_at_s
    if not item.buffered_steps:
        return start_s + rate.cycle_s
    return start_s + min(item.buffered_steps, rate.horizon) * rate.period_s
