"""Action tier: how many robots one policy replica keeps in chunks.

A robot executes `executed_steps` rows of each chunk at its control rate, so it needs a chunk every
D = executed_steps / control_hz. Three disciplines, from the most to the least favourable:

- `paced_by_arrival`: pacing lets all robots ask together, one batch per D, and rows count from the
  moment the chunk arrives. This is the study's accounting of a chunk.
- `paced_by_step`: the same pacing, but row i of a chunk belongs to control step s + i of the
  observation it answers (the SDK's rule). Rows of steps that pass during inference are lost, so the
  horizon has to cover them.
- `unpaced`: robots ask when their rows are used up, as in the study's own load. An observation that
  comes just after a batch has started waits for it and then for its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from server.core.batching.latency_table import LatencyTable
from server.core.capacity.checks import positive, whole

#: Rows that the study executes of each chunk, which makes its D = 5 / f.
STUDY_EXECUTED_STEPS = 5
MOST_ROBOTS = 4096
_MOST_STEPS = 100_000
_MOST_HZ = 10_000.0
#: What a paced chunk needs beside the inference, and what arrivals may scatter by: our round trip
#: without inference took 7.6 ms at the 99th percentile with 16 robots at 20 Hz on loopback.
RESERVE_S = 0.010
#: A finish that meets the deadline on paper must not fail for rounding of floats.
_SLACK_S = 1e-9


@dataclass(frozen=True)
class ActionCapacity:
    """Robots of one replica under one discipline.

    Attributes:
        robots: 0: not even one robot meets the deadline.
        is_at_least: The latency table ends here; more robots may fit.
        batch_latency_s: Latency of a batch of that many; None without robots.
    """

    robots: int
    is_at_least: bool
    batch_latency_s: float | None


def chunk_deadline_s(control_hz: float, executed_steps: int = STUDY_EXECUTED_STEPS) -> float:
    """D = executed_steps / control_hz: how long the rows of one chunk last."""
    whole("executed steps", executed_steps, 1, _MOST_STEPS)
    return executed_steps / positive("control rate", control_hz, _MOST_HZ)


def paced_by_arrival(
    table: LatencyTable,
    control_hz: float,
    executed_steps: int = STUDY_EXECUTED_STEPS,
    reserve_s: float = RESERVE_S,
) -> ActionCapacity:
    """Most robots n with latency(n) + reserve <= D."""
    deadline_s = chunk_deadline_s(control_hz, executed_steps)
    return _largest(table, lambda n: table.latency_s(n) + reserve_s <= deadline_s + _SLACK_S)


def paced_by_step(
    table: LatencyTable,
    control_hz: float,
    executed_steps: int,
    horizon: int,
    reserve_s: float = RESERVE_S,
) -> ActionCapacity:
    """Most robots n with latency(n) + reserve = t <= D and ceil(t * f) + executed_steps <= horizon.

    `horizon` is the number of rows in a chunk.
    """
    deadline_s = chunk_deadline_s(control_hz, executed_steps)
    whole("horizon", horizon, executed_steps, _MOST_STEPS)

    def fits(robots: int) -> bool:
        age_s = table.latency_s(robots) + reserve_s
        lost_rows = math.ceil((age_s - _SLACK_S) * control_hz)
        return age_s <= deadline_s + _SLACK_S and lost_rows + executed_steps <= horizon

    return _largest(table, fits)


def unpaced(
    table: LatencyTable, control_hz: float, executed_steps: int = STUDY_EXECUTED_STEPS
) -> ActionCapacity:
    """Most robots n with 2 * latency(n) <= D; a robot alone waits for nobody: latency(1) <= D.

    Without a reserve: the study's criterion forgives 1% of starved ticks, and with this rule its
    own table gives its measured 1 robot at 20 Hz and 8 at 10 Hz.
    """
    deadline_s = chunk_deadline_s(control_hz, executed_steps)
    return _largest(
        table,
        lambda n: table.latency_s(n) * (1 if n == 1 else 2) <= deadline_s + _SLACK_S,
    )


def _largest(table: LatencyTable, fits: Callable[[int], bool]) -> ActionCapacity:
    """Largest n so that every number of robots up to n fits."""
    limit = min(table.largest_batch, MOST_ROBOTS)
    robots = 0
    while robots < limit and fits(robots + 1):
        robots += 1
    return ActionCapacity(
        robots=robots,
        is_at_least=robots == limit,
        batch_latency_s=table.latency_s(robots) if robots else None,
    )
