"""The action tier's server in virtual time: its own batcher, and workers that take time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from robot_sdk.chunks import ChunkFailure, PolicyObservation
from robot_sdk.errors import CancelledByServerError, DeadlineExceededError
from server.core.batching import Accepted, Batcher, LatencyTable, StreamRate, Verdict, Waiting
from sim.fleet.action_robot import FleetStream
from sim.fleet.event_loop import EventLoop


@dataclass(frozen=True)
class _Request:
    stream: FleetStream
    observation: PolicyObservation


class ActionTier:
    """Does what the server's policy driver does, with virtual workers.

    Args:
        table: What a batch truly takes.
        latency_spread: A batch takes up to this share longer or shorter than the table says.

    Attributes:
        batch_sizes: How often each batch size was run.
    """

    def __init__(
        self,
        loop: EventLoop,
        batcher: Batcher[Any],
        table: LatencyTable,
        num_workers: int,
        chance: random.Random,
        latency_spread: float = 0.0,
    ) -> None:
        self._loop = loop
        self._batcher = batcher
        self._table = table
        self._chance = chance
        self._latency_spread = latency_spread
        self._free = set(range(num_workers))
        self._wake_at_s: float | None = None
        self._open: set[int] = set()
        self.batch_sizes: Counter[int] = Counter()
        self._given_s = 0.0
        self._ends_s = [0.0] * num_workers
        for worker in range(num_workers):
            batcher.on_ready(worker, 0.0)

    @property
    def busy_s(self) -> float:
        """Time that workers have computed until now, summed over workers."""
        ahead_s = sum(max(0.0, end_s - self._now_s) for end_s in self._ends_s)
        return self._given_s - ahead_s

    def open_stream(self, stream: FleetStream) -> Verdict:
        """A robot asks to be served."""
        spec = stream.spec
        rate = StreamRate(spec.control_hz, spec.executed_steps, spec.horizon)
        verdict = self._batcher.open_stream(stream.number, rate, self._now_s)
        if isinstance(verdict, Accepted):
            self._open.add(stream.number)
        return verdict

    def close_stream(self, stream: FleetStream) -> None:
        """A robot has gone."""
        self._open.discard(stream.number)
        self._batcher.close_stream(stream.number)
        self._pump()

    def submit(self, stream: FleetStream, observation: PolicyObservation) -> None:
        """An observation has arrived."""
        if stream.number not in self._open:
            return
        now_s = self._now_s
        deadline_s = observation.deadline_s
        replaced = self._batcher.add(
            Waiting(
                stream=stream.number,
                sequence=observation.sequence,
                arrived_s=now_s,
                expires_at_s=None if deadline_s is None else now_s + deadline_s,
                payload=_Request(stream, observation),
                control_step=observation.control_step,
                buffered_steps=observation.buffered_steps,
            )
        )
        if replaced is not None:
            self._fail(replaced.payload, CancelledByServerError("a newer observation came"))
        self._pump()

    @property
    def _now_s(self) -> float:
        return self._loop.clock.now_s()

    def _pump(self) -> None:
        wakes_s: list[float] = []
        for worker in sorted(self._free):
            batch = self._batcher.take(self._now_s, worker)
            for late in batch.expired:
                self._fail(late.payload, DeadlineExceededError("waited past its deadline"))
            if batch.items:
                self._start(worker, [item.payload for item in batch.items])
            elif batch.wake_at_s is not None:
                wakes_s.append(batch.wake_at_s)
        if wakes_s:
            self._wake(min(wakes_s))

    def _wake(self, time_s: float) -> None:
        if self._wake_at_s is not None and self._now_s < self._wake_at_s <= time_s:
            return
        self._wake_at_s = time_s
        self._loop.at(time_s, self._pump)

    def _start(self, worker: int, requests: list[_Request]) -> None:
        self._free.discard(worker)
        self.batch_sizes[len(requests)] += 1
        spread = self._latency_spread * (2 * self._chance.random() - 1)
        latency_s = self._table.latency_s(len(requests)) * (1 + spread)
        self._given_s += latency_s
        self._ends_s[worker] = self._now_s + latency_s
        self._loop.at(self._now_s + latency_s, lambda: self._finish(worker, requests, latency_s))

    def _finish(self, worker: int, requests: list[_Request], latency_s: float) -> None:
        self._free.add(worker)
        self._batcher.on_finished(worker, len(requests), latency_s, self._now_s)
        self._deliver(requests)
        self._pump()

    def _deliver(self, requests: list[_Request]) -> None:
        for request in requests:
            number = request.stream.number
            if number in self._open:
                in_s = self._batcher.next_observation_in_s(number, self._now_s)
                request.stream.deliver(request.observation, in_s)

    def _fail(
        self, request: _Request, error: CancelledByServerError | DeadlineExceededError
    ) -> None:
        observation = request.observation
        request.stream.fail(ChunkFailure(observation.sequence, observation.control_step, error))
