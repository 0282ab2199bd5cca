"""What the study prints, and which case makes its counterpart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A figure or a table of the study.

    Attributes:
        number: Of a figure; tables have none.
        shows: One line.
        case: Makes the counterpart; "": nothing is computed for it.
    """

    number: int | None
    shows: str
    case: str


FIGURES = (
    Published(1, "which request goes where, and what is measured and replayed", ""),
    Published(2, "context over brain turns, by suite", "workload"),
    Published(3, "intervals between brain calls: control steps and wall clock", "three-clocks"),
    Published(4, "latency of pi0.5 over batch size", "action-batch"),
    Published(5, "starved ticks over robots, at three control rates", "action-capacity"),
    Published(6, "a call of 150 tokens over context, prefix kept and evicted", "brain-latency"),
    Published(7, "sessions that keep their whole prefix, over sessions", "cliff"),
    Published(8, "throughput and hit rate of sustained fleets, over robots", "sustained"),
    Published(9, "hit rate, computed and generated tokens over time, N=20 and N=32", "sustained"),
    Published(10, "episodes per minute and Jain's index, with and without a cap", "static-cap"),
)
TABLES = (
    Published(None, "the three clocks", "three-clocks"),
    Published(None, "load by suite", "workload"),
    Published(None, "robots carried by the action tier", "action-capacity"),
    Published(None, "latency of the brain tier, prefix kept and evicted", "brain-latency"),
    Published(None, "static caps at N=48", "static-cap"),
)
