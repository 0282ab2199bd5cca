"""Whatever robots do, nobody is forgotten, nothing is kept, and nobody waits beyond a bound."""

from __future__ import annotations

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from server.core.batching import (
    STUDY_TABLE,
    Accepted,
    DeadlineBatcher,
    LatencyLearner,
    LatencyRow,
    LatencyTable,
    StreamRate,
    Waiting,
)

_STREAMS = st.integers(0, 5)
_LATENCIES_S = [0.0, 1e-9, 0.01, 0.25, 30.0, 1e300, math.nan, math.inf, -1.0]
_STEPS = st.one_of(st.integers(0, 40), st.sampled_from([2**31, 2**63, 2**64 - 1]))


@st.composite
def _rates(draw: st.DrawFn) -> StreamRate:
    horizon = draw(st.sampled_from([1, 2, 10, 50, 1000]))
    executed = draw(st.sampled_from([1, max(1, horizon // 2), horizon]))
    return StreamRate(
        draw(st.sampled_from([0.01, 0.3, 5.0, 20.0, 30.0, 1000.0])), executed, horizon
    )


class Storm(RuleBasedStateMachine):
    """Events in any order, with the clock standing still or jumping."""

    @initialize(
        max_batch=st.sampled_from([1, 2, 64]),
        num_workers=st.sampled_from([1, 8]),
        latency_s=st.sampled_from([None, 1e-9, 0.02, 0.16, 1e300]),
        refuses=st.booleans(),
    )
    def begin(
        self, max_batch: int, num_workers: int, latency_s: float | None, refuses: bool
    ) -> None:
        table = None
        if latency_s is not None:
            rows = (LatencyRow(1, latency_s), LatencyRow(64, 2 * latency_s))
            table = LatencyTable(**{**vars(STUDY_TABLE), "rows": rows})
        self.batcher: DeadlineBatcher[None] = DeadlineBatcher(
            max_batch, LatencyLearner(table), num_workers, refuses=refuses
        )
        self.num_workers = num_workers
        self.max_batch = max_batch
        self.now_s = 100.0
        self.sequence = 0
        self.waiting: set[int] = set()
        self.busy: dict[int, int] = {}
        self.open_streams: set[int] = set()
        self.num_refused = 0

    @rule(stream=_STREAMS, rate=_rates())
    def open(self, stream: int, rate: StreamRate) -> None:
        verdict = self.batcher.open_stream(stream, rate, self.now_s)
        if isinstance(verdict, Accepted):
            in_s = verdict.next_observation_in_s
            assert in_s is not None
            assert 0.0 <= in_s < math.inf
            assert verdict.too_slow is None or not self.open_streams - {stream}
            self.open_streams.add(stream)
        else:
            assert verdict.reason
            assert self.open_streams - {stream}, "a robot alone was refused"
            self.num_refused += 1

    @rule(
        stream=_STREAMS,
        step=st.one_of(st.none(), _STEPS),
        rows=st.sampled_from([None, 0, 5, 2**32 - 1]),
        expires_in_s=st.sampled_from([None, 0.5, -1.0, math.inf]),
    )
    def add(
        self, stream: int, step: int | None, rows: int | None, expires_in_s: float | None
    ) -> None:
        self.sequence += 1
        expires_s = None if expires_in_s is None else self.now_s + expires_in_s
        item = Waiting(stream, self.sequence, self.now_s, expires_s, None, step, rows)
        replaced = self.batcher.add(item)
        if replaced is not None:
            self.waiting.remove(replaced.sequence)
        self.waiting.add(self.sequence)

    @rule(worker=st.integers(0, 7))
    def take(self, worker: int) -> None:
        worker %= self.num_workers
        if worker in self.busy:
            return
        batch = self.batcher.take(self.now_s, worker)
        self.waiting -= {item.sequence for item in (*batch.items, *batch.expired)}
        assert len(batch.items) <= self.max_batch
        if batch.items:
            assert batch.wake_at_s is None
            self.busy[worker] = len(batch.items)
        elif batch.wake_at_s is not None:
            assert self.now_s < batch.wake_at_s < math.inf

    @rule(worker=st.integers(0, 7), latency_s=st.sampled_from(_LATENCIES_S))
    def finish(self, worker: int, latency_s: float) -> None:
        if worker in self.busy:
            self.batcher.on_finished(worker, self.busy.pop(worker), latency_s, self.now_s)

    @rule(worker=st.integers(0, 7))
    def lose(self, worker: int) -> None:
        self.busy.pop(worker, None)
        self.batcher.on_lost(worker, self.now_s)

    @rule(worker=st.integers(0, 7))
    def come_back(self, worker: int) -> None:
        worker %= self.num_workers
        if worker not in self.busy:
            self.batcher.on_ready(worker, self.now_s)

    @rule(stream=_STREAMS)
    def close(self, stream: int) -> None:
        self.open_streams.discard(stream)
        gone = self.batcher.close_stream(stream)
        if gone is not None:
            self.waiting.remove(gone.sequence)

    @rule(by_s=st.sampled_from([0.0, 1e-6, 0.05, 0.25, 1.0, 1e5]))
    def pass_time(self, by_s: float) -> None:
        self.now_s += by_s

    @rule(stream=_STREAMS)
    def ask_when(self, stream: int) -> None:
        in_s = self.batcher.next_observation_in_s(stream, self.now_s)
        assert in_s is None or 0.0 <= in_s < math.inf

    @invariant()
    def nobody_is_forgotten(self) -> None:
        if hasattr(self, "batcher"):
            assert len(self.batcher) == len(self.waiting)

    @invariant()
    def who_was_accepted_is_known_and_nobody_else(self) -> None:
        if hasattr(self, "batcher"):
            status = self.batcher.status(self.now_s)
            told = (len(self.open_streams), self.num_refused)
            assert (status.num_streams, status.num_refused) == told

    @precondition(lambda self: bool(self.waiting))
    @rule()
    def serve_all(self) -> None:
        """With nothing new arriving, what waits is served after a bounded number of decisions."""
        for worker in list(self.busy):
            self.finish(worker, 0.1)
        for _ in range(200):
            if not self.waiting:
                return
            batch = self.batcher.take(self.now_s, 0)
            self.waiting -= {item.sequence for item in (*batch.items, *batch.expired)}
            if batch.items:
                self.now_s += 0.1
                self.batcher.on_finished(0, len(batch.items), 0.1, self.now_s)
            elif batch.wake_at_s is not None:
                assert batch.wake_at_s > self.now_s
                self.now_s = batch.wake_at_s
        raise AssertionError(f"{len(self.waiting)} observations were never served")

    def teardown(self) -> None:
        if not hasattr(self, "batcher"):
            return
        assert math.isfinite(self.batcher.status(self.now_s).cycle_s or 0.0)
        for stream in range(6):
            self.batcher.close_stream(stream)
        status = self.batcher.status(self.now_s)
        assert (status.num_streams, status.num_waiting, len(self.batcher)) == (0, 0, 0)


def test_any_storm_of_events_is_survived_and_everybody_is_served() -> None:
    run_state_machine_as_test(
        Storm, settings=settings(max_examples=150, stateful_step_count=40, deadline=None)
    )
