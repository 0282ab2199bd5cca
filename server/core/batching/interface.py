"""What a driver and a batcher say to each other.

A batcher is pure: it is told what happened and when, and answers with what to do. One batcher
serves one policy and all of its workers. The driver calls it like this:

- a worker has loaded: `on_ready`; it died: `on_lost`;
- a robot opens a stream: `open_stream`, and refuses the robot if the verdict says so;
- an observation arrives: `add`, then `take` for every worker that is free;
- a worker is free (it finished, it became ready, `wake_at_s` has come): `take`;
- a batch is done: `on_finished`, then `take`;
- a chunk is sent: `next_observation_in_s`, which travels with it;
- the stream ends: `close_stream`.

All times are seconds on the server's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, Union

PayloadT = TypeVar("PayloadT")

#: Control rates that a stream may have, per second. Far beyond any robot on both sides; outside of
#: them the times that a plan is made of are no longer told apart from each other.
LOWEST_CONTROL_HZ, HIGHEST_CONTROL_HZ = 1e-3, 1e4


@dataclass(frozen=True)
class StreamRate:
    """How a stream executes its chunks.

    Attributes:
        control_hz: Rows executed per second, `LOWEST_CONTROL_HZ` to `HIGHEST_CONTROL_HZ`.
        executed_steps: Rows after which the next chunk should take over, 1..horizon.
        horizon: Rows in a chunk.
    """

    control_hz: float
    executed_steps: int
    horizon: int

    def __post_init__(self) -> None:
        if not LOWEST_CONTROL_HZ <= self.control_hz <= HIGHEST_CONTROL_HZ:
            raise ValueError(
                f"control_hz is {self.control_hz}; allowed: {LOWEST_CONTROL_HZ:g} to "
                f"{HIGHEST_CONTROL_HZ:g}"
            )
        if not 1 <= self.executed_steps <= self.horizon:
            raise ValueError(
                f"executed_steps is {self.executed_steps}; allowed: 1 to the horizon "
                f"({self.horizon})"
            )

    @property
    def period_s(self) -> float:
        """Time of one control step."""
        return 1.0 / self.control_hz

    @property
    def cycle_steps(self) -> int:
        """Steps between two observations when the tier is full.

        Rows are addressed by control step: a chunk that takes n steps to come has its first n rows
        spent. With one observation in flight the next one leaves n steps later at the earliest, and
        its chunk takes n steps too, so the rows must last for 2n. Hence at most half the horizon.
        """
        return min(self.executed_steps, max(1, self.horizon // 2))

    @property
    def cycle_s(self) -> float:
        """Seconds between two observations; also the time within which a chunk must come."""
        return self.cycle_steps / self.control_hz


@dataclass(frozen=True)
class Waiting(Generic[PayloadT]):
    """One observation that waits for a worker.

    Attributes:
        stream: Stream it belongs to, unique in the server.
        arrived_s: When it arrived.
        expires_at_s: When its chunk is of no more use; None is never.
        payload: Whatever the driver needs; never looked at here.
        control_step: The robot's step at which it was taken; None if unknown.
        buffered_steps: Rows the robot can execute from that step on without this chunk; None if
            unknown.
    """

    stream: int
    sequence: int
    arrived_s: float
    expires_at_s: float | None
    payload: PayloadT
    control_step: int | None = None
    buffered_steps: int | None = None

    def is_late(self, now_s: float) -> bool:
        return self.expires_at_s is not None and now_s >= self.expires_at_s


@dataclass(frozen=True)
class Batch(Generic[PayloadT]):
    """What to run now, and what was given up because its time had passed.

    Attributes:
        items: Run these now on the worker that was asked for. Empty: nothing to run now.
        expired: Given up; answer them with a failure.
        wake_at_s: Ask again at this time, or when anything arrives or finishes before. None: only
            when something arrives or finishes. Always None when `items` is not empty.
    """

    items: tuple[Waiting[PayloadT], ...]
    expired: tuple[Waiting[PayloadT], ...]
    wake_at_s: float | None = None


@dataclass(frozen=True)
class TooSlow:
    """The tier cannot keep even one robot supplied at this rate.

    Attributes:
        reason: One sentence with the figures.
        sustainable_control_hz: Highest control rate at which it could. None: none.
    """

    reason: str
    sustainable_control_hz: float | None


@dataclass(frozen=True)
class Accepted:
    """The stream may send observations.

    Attributes:
        next_observation_in_s: Seconds from now at which the robot should put the first tick of its
            grid, so that its observations arrive together with the others'. None: anywhere.
        too_slow: The stream will starve, and was accepted because it is the only one: alone it
            takes nothing from anybody, and its user may prefer a slow policy to none. None: it is
            not known to starve.
    """

    next_observation_in_s: float | None = None
    too_slow: TooSlow | None = None


@dataclass(frozen=True)
class Refused:
    """The tier cannot carry this stream beside those it has.

    Attributes:
        reason: One sentence with the figures.
        sustainable_control_hz: Highest control rate at which it would be accepted now. None: none.
    """

    reason: str
    sustainable_control_hz: float | None


Verdict = Union[Accepted, Refused]


@dataclass(frozen=True)
class BatchLatency:
    """What a batch of one size is expected to take.

    Attributes:
        num_samples: Batches it was learned from; 0: the configured table.
    """

    batch_size: int
    latency_s: float
    num_samples: int


@dataclass(frozen=True)
class TierStatus:
    """How the tier stands.

    Attributes:
        name: Of the batcher, for example "deadline".
        num_streams: Open streams.
        num_waiting: Observations that wait.
        num_expired: Observations given up so far because their time had passed.
        num_refused: Streams refused so far.
        cycle_s: Period in which every stream is served once. None: it does not pace, or has no
            streams.
        sustainable_control_hz: Highest control rate that one more stream could have. None: unknown,
            or none at all.
        latencies: For the sizes that were measured; empty while nothing is known.
    """

    name: str
    num_streams: int
    num_waiting: int
    num_expired: int
    num_refused: int
    cycle_s: float | None
    sustainable_control_hz: float | None
    latencies: tuple[BatchLatency, ...]


class Batcher(Protocol[PayloadT]):
    """Order, size and time of batches."""

    @property
    def name(self) -> str:
        """What the configuration and the status call it."""

    def __len__(self) -> int:
        """Observations that wait."""

    def open_stream(self, stream: int, rate: StreamRate, now_s: float) -> Verdict:
        """A robot wants to send observations. After `Refused` the stream does not exist.

        A stream is never refused while it would be the only one.
        """

    def close_stream(self, stream: int) -> Waiting[PayloadT] | None:
        """The stream is gone; returns what it had waiting. Unknown streams are ignored."""

    def add(self, item: Waiting[PayloadT]) -> Waiting[PayloadT] | None:
        """Take an observation in. Returns the older one of its stream that it replaced."""

    def withdraw(self, stream: int) -> Waiting[PayloadT] | None:
        """Give back what the stream has waiting; the stream stays open."""

    def expire(self, now_s: float) -> tuple[Waiting[PayloadT], ...]:
        """Give up what has waited past its time, whether or not a worker is free."""

    def take(self, now_s: float, worker: int = 0) -> Batch[PayloadT]:
        """What `worker`, which is free now, should do. With items, it counts as busy until
        `on_finished` or `on_lost`.
        """

    def on_ready(self, worker: int, now_s: float) -> None:
        """The worker has loaded. Its first batches are slow and teach nothing about latency."""

    def on_finished(self, worker: int, batch_size: int, latency_s: float, now_s: float) -> None:
        """The worker is done with a batch that took `latency_s` from hand-over to result."""

    def on_lost(self, worker: int, now_s: float) -> None:
        """The worker is gone, with the batch it had."""

    def next_observation_in_s(self, stream: int, now_s: float) -> float | None:
        """When this stream should ask again, seconds from now. None: whenever it needs to.

        Only ever earlier than the stream's own rows ask for, never later.
        """

    def status(self, now_s: float) -> TierStatus:
        """For the operator and the robots."""
