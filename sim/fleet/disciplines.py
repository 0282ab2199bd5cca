"""Ways to run the action tier, by name: who batches how, and when robots ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from robot_sdk.action_source import ActionSource
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.chunks import PolicyStream
from robot_sdk.latency_window import LatencyWindow
from robot_sdk.policy_source import PolicySource
from robot_sdk.request_timing import RequestTiming
from server.core.batching import Batcher, LatencyTable, make_batcher
from sim.fleet.rows_from_arrival import RowsFromArrival

#: A tool that outlives every simulation.
_NO_END_STEPS = 1_000_000_000

MakeSource = Callable[[PolicyStream, "float | None"], ActionSource]


@dataclass(frozen=True)
class Discipline:
    """One way to run the tier.

    Attributes:
        name: What results call it.
        about: One line for tables and figures.
        batcher: Name of the server's batcher.
        make_source: From the open stream, and when the server would like the first observation.
        executes_late_rows: Rows count from arrival, not from the step they were predicted for.
    """

    name: str
    about: str
    batcher: str
    make_source: MakeSource
    executes_late_rows: bool = False

    def make_batcher(
        self, table: LatencyTable, max_batch: int, num_workers: int, margin_s: float
    ) -> Batcher[Any]:
        """The server's batcher, except that it refuses nobody: a replay looks for who starves."""
        return make_batcher(self.batcher, max_batch, num_workers, table, margin_s, refuses=False)


class NoLead(LatencyWindow):
    """A latency taken to be nothing, so that no request leads the end of the rows."""

    def value_s(self) -> float | None:
        return 0.0


def prefetching(stream: PolicyStream, first_observation_s: float | None) -> ActionSource:
    """The SDK as robots run it."""
    return PolicySource(
        stream,
        ChunkBuffer(),
        RequestTiming.from_spec(stream.spec),
        max_steps=_NO_END_STEPS,
        first_observation_s=first_observation_s,
    )


def asking_when_empty(stream: PolicyStream, first_observation_s: float | None) -> ActionSource:
    """The SDK's objects, set to ask when the last row has been executed."""
    spec = stream.spec
    timing = RequestTiming(
        horizon=spec.horizon,
        executed_steps=spec.horizon,
        control_hz=spec.control_hz,
        margin_steps=0,
        latencies=NoLead(),
    )
    return PolicySource(
        stream,
        ChunkBuffer(),
        timing,
        max_steps=_NO_END_STEPS,
        first_observation_s=first_observation_s,
    )


def counting_from_arrival(stream: PolicyStream, first_observation_s: float | None) -> ActionSource:
    """As the study counts."""
    return RowsFromArrival(stream)


DISCIPLINES = {
    discipline.name: discipline
    for discipline in (
        Discipline("paced", "paced by the server, batched by deadline", "deadline", prefetching),
        Discipline("prefetch", "unpaced, requests lead the end of the rows", "fifo", prefetching),
        Discipline("on_empty", "asks when the last row is executed", "fifo", asking_when_empty),
        Discipline(
            "study",
            "rows count from arrival",
            "fifo",
            counting_from_arrival,
            executes_late_rows=True,
        ),
        Discipline("fifo", "unpaced, first come, first served", "fifo", prefetching),
        Discipline("round_robin", "unpaced, every stream in its turn", "round_robin", prefetching),
        Discipline("edf", "unpaced, earliest deadline first", "edf", prefetching),
        Discipline("lookahead", "unpaced, one-step lookahead", "lookahead", prefetching),
    )
}
