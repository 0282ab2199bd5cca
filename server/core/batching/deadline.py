"""Batches that meet deadlines, of robots that are paced so that they arrive together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

from server.core.batching.choice import Choice, Claim, Expected, Wait
from server.core.batching.due import due_s
from server.core.batching.interface import (
    Accepted,
    Batch,
    Refused,
    StreamRate,
    TierStatus,
    TooSlow,
    Verdict,
    Waiting,
)
from server.core.batching.latency_learner import LatencyLearner
from server.core.batching.line import WaitingLine
from server.core.batching.pacing import Pacer
from server.core.batching.tier_admission import TierAdmission
from server.core.batching.workers import WorkerBook

PayloadT = TypeVar("PayloadT")

#: Time lost between robot and worker: the network both ways and the front end.
DEFAULT_MARGIN_S = 0.005
#: Least part of a control period within which a robot still counts as on the plan.
_LEAST_TOLERANCE_PERIODS = 0.1


class DeadlineBatcher(Generic[PayloadT]):
    """Pacing (`pacing`), admission (`tier_admission`) and the choice of a batch (`choice`) in one.

    Streams that it was not told of are served too: by their expiry, and without pacing.

    Args:
        max_batch: Most observations in a batch.
        latencies: What a batch takes; None: learned from the first batch on. Until something is
            known, every stream is accepted and a free worker takes what is there.
        num_workers: Workers that the policy should have.
        margin_s: Seconds of a cycle lost between robot and worker.
        paces: False: robots ask when they want to; everything else stays.
        refuses: False: every stream is accepted. True: every one that fits beside those that are
            there, and any that is the only one, however slow the policy is; it counts among the
            streams that later ones must fit beside.
    """

    name: ClassVar[str] = "deadline"

    def __init__(
        self,
        max_batch: int,
        latencies: LatencyLearner | None = None,
        num_workers: int = 1,
        margin_s: float = DEFAULT_MARGIN_S,
        paces: bool = True,
        refuses: bool = True,
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch is {max_batch}; a batch holds at least 1 observation")
        if num_workers < 1:
            raise ValueError(f"num_workers is {num_workers}; a policy has at least 1 worker")
        if not 0 <= margin_s < float("inf"):
            raise ValueError(f"margin_s is {margin_s}; it must be seconds, at least 0")
        self._max_batch = max_batch
        self._latencies = LatencyLearner() if latencies is None else latencies
        self._margin_s = margin_s
        self._paces = paces
        self._refuses = refuses
        self._line: WaitingLine[PayloadT] = WaitingLine()
        self._workers = WorkerBook(num_workers)
        self._pacer = Pacer()
        self._admission = TierAdmission(self._latencies, max_batch, self._lost_s)
        self._taken_s: dict[int, float] = {}
        self._expected: dict[int, Expected] = {}
        self._running: dict[int, tuple[int, ...]] = {}
        self._last_rate: StreamRate | None = None
        self._num_expired = 0
        self._num_refused = 0

    def __len__(self) -> int:
        return len(self._line)

    def open_stream(self, stream: int, rate: StreamRate, now_s: float) -> Verdict:
        rates = [held for other, held in self._pacer.plan.rates.items() if other != stream]
        num_workers = self._workers.num_workers
        too_slow: TooSlow | None = None
        if not rates:
            too_slow = self._too_slow(rate)
        elif self._refuses and not self._admission.fits([*rates, rate], num_workers):
            self._num_refused += 1
            return self._refusal(rates, rate)
        self._last_rate = rate
        in_s = self._pacer.join(stream, rate, now_s)
        if not self._paces:
            return Accepted(too_slow=too_slow)
        self._expected[stream] = self._expect(rate, now_s + in_s)
        return Accepted(in_s, too_slow)

    def close_stream(self, stream: int) -> Waiting[PayloadT] | None:
        self._pacer.leave(stream)
        self._expected.pop(stream, None)
        return self.withdraw(stream)

    def add(self, item: Waiting[PayloadT]) -> Waiting[PayloadT] | None:
        taken_s = self._pacer.arrived(item)
        self._taken_s[item.stream] = item.arrived_s if taken_s is None else taken_s
        self._expected.pop(item.stream, None)
        return self._line.add(item)

    def withdraw(self, stream: int) -> Waiting[PayloadT] | None:
        self._taken_s.pop(stream, None)
        return self._line.withdraw(stream)

    def expire(self, now_s: float) -> tuple[Waiting[PayloadT], ...]:
        expired = self._line.expire(now_s)
        self._num_expired += len(expired)
        for item in expired:
            self._taken_s.pop(item.stream, None)
        return expired

    def take(self, now_s: float, worker: int = 0) -> Batch[PayloadT]:
        expired = self.expire(now_s)
        self._workers.ready(worker, now_s)
        if not self._line:
            return Batch((), expired)
        if self._latencies.expected_s(1) is None:
            return self._run(list(self._line)[: self._max_batch], expired, worker, now_s)
        ordered = self._by_due_time(now_s)
        decision = Choice(
            now_s=now_s,
            claims=[claim for claim, _ in ordered],
            expected=tuple(self._expected.values()),
            others_free_at_s=self._workers.others_free_at_s(worker, now_s),
            latency_s=self._latency_s,
            max_batch=self._max_batch,
            tolerance_s=self._spare_s,
            spare_s=self._pacer.jitter_s,
        ).decide()
        if isinstance(decision, Wait):
            return Batch((), expired, decision.until_s)
        items = [item for _, item in ordered[: decision.size]]
        return self._run(items, expired, worker, now_s)

    def on_ready(self, worker: int, now_s: float) -> None:
        self._workers.ready(worker, now_s)
        self._latencies.forget_warmth(worker)

    def on_finished(self, worker: int, batch_size: int, latency_s: float, now_s: float) -> None:
        self._workers.ready(worker, now_s)
        self._latencies.add(worker, batch_size, latency_s)
        # A batch that took longer than expected is late for all its robots alike: they come
        # together again, at a later tick than they were expected at.
        self._expect_again(self._running.pop(worker, ()), now_s)

    def on_lost(self, worker: int, now_s: float) -> None:
        self._workers.lost(worker)
        self._expect_again(self._running.pop(worker, ()), now_s)

    def next_observation_in_s(self, stream: int, now_s: float) -> float | None:
        if not self._paces:
            return None
        step = self._next_step(stream)
        if step is None:
            return None
        # Half a period before the tick: the robot acts on whole ticks, and the wish is counted from
        # its arrival there.
        half_period_s = self._pacer.plan.rates[stream].period_s / 2
        return max(0.0, self._pacer.tick_s(stream, step) - half_period_s - now_s)

    def status(self, now_s: float) -> TierStatus:
        rates = list(self._pacer.plan.rates.values())
        highest_hz = None
        if self._last_rate is not None and rates:
            highest_hz = self._admission.highest_hz(
                rates, self._last_rate, self._workers.num_workers
            )
        return TierStatus(
            name=self.name,
            num_streams=len(rates),
            num_waiting=len(self._line),
            num_expired=self._num_expired,
            num_refused=self._num_refused,
            cycle_s=self._pacer.plan.cycle_s if self._paces else None,
            sustainable_control_hz=highest_hz,
            latencies=self._latencies.measured(),
        )

    def _too_slow(self, rate: StreamRate) -> TooSlow | None:
        """Whether a stream starves though it is the only one."""
        num_workers = self._workers.num_workers
        if self._admission.fits([rate], num_workers):
            return None
        highest_hz, advice = self._rate_that_fits([], rate)
        return TooSlow(
            f"the policy's workers ({num_workers}) cannot give one robot a chunk every "
            f"{rate.cycle_s:.3g} s at {rate.control_hz:g} Hz; {advice}",
            highest_hz,
        )

    def _refusal(self, rates: Sequence[StreamRate], rate: StreamRate) -> Refused:
        highest_hz, advice = self._rate_that_fits(rates, rate)
        return Refused(
            f"the policy's workers ({self._workers.num_workers}) carry {len(rates)} robots and "
            f"cannot give one more a chunk every {rate.cycle_s:.3g} s at {rate.control_hz:g} Hz; "
            f"{advice}",
            highest_hz,
        )

    def _rate_that_fits(
        self, rates: Sequence[StreamRate], rate: StreamRate
    ) -> tuple[float | None, str]:
        """Below that of `rate`, beside `rates`; as a number and in words."""
        highest_hz = self._admission.highest_hz(
            rates, rate, self._workers.num_workers, below_hz=rate.control_hz
        )
        if highest_hz is None:
            return None, "no control rate would fit"
        return highest_hz, f"{highest_hz:.3g} Hz would fit"

    @property
    def _spare_s(self) -> float:
        """Set aside for the network. The way back is taken to vary as much as the way there."""
        return self._margin_s + self._pacer.jitter_s

    def _lost_s(self) -> float:
        """Part of a cycle in which no batch runs. Jitter counts on the way there and back."""
        return self._margin_s + 2 * self._pacer.jitter_s

    def _latency_s(self, batch_size: int) -> float:
        return self._latencies.expected_s(batch_size) or 0.0

    def _by_due_time(self, now_s: float) -> list[tuple[Claim, Waiting[PayloadT]]]:
        """Those that can still be in time, earliest due first; then those that cannot."""
        soonest_s = now_s + self._latency_s(1)
        claims = [(self._claim(item), item) for item in self._line]
        return sorted(claims, key=lambda pair: (pair[0].due_s < soonest_s, pair[0].due_s))

    def _claim(self, item: Waiting[PayloadT]) -> Claim:
        rate = self._pacer.plan.rates.get(item.stream)
        at_s = due_s(item, rate, self._taken_s.get(item.stream)) - self._margin_s
        return Claim(at_s, 1.0, 1) if rate is None else Claim(at_s, rate.period_s, rate.horizon)

    def _run(
        self,
        items: list[Waiting[PayloadT]],
        expired: tuple[Waiting[PayloadT], ...],
        worker: int,
        now_s: float,
    ) -> Batch[PayloadT]:
        self._line.remove(items)
        end_s = now_s + (self._latencies.expected_s(len(items)) or 0.0)
        self._workers.started(worker, end_s)
        self._pacer.started(items)
        for item in items:
            self._taken_s.pop(item.stream, None)
        self._running[worker] = tuple(item.stream for item in items)
        self._expect_again(self._running[worker], end_s)
        return Batch(tuple(items), expired)

    def _expect_again(self, streams: Iterable[int], end_s: float) -> None:
        """Their batch ends at `end_s`: each robot asks at one of its ticks after that."""
        for stream in streams:
            rate = self._pacer.plan.rates.get(stream)
            step = self._next_step(stream)
            if rate is None or step is None or not self._paces or stream in self._line:
                continue
            # The robot has one observation in flight, so it cannot ask before the chunk is there.
            soonest_s = end_s + self._margin_s / 2
            step = max(step, self._pacer.step_from(stream, soonest_s))
            self._expected[stream] = self._expect(rate, self._pacer.tick_s(stream, step))

    def _next_step(self, stream: int) -> int | None:
        rate = self._pacer.plan.rates.get(stream)
        if rate is None:
            return None
        base_s, latency_s = self._pacer.plan.base_s or 0.0, self._planned_latency_s()
        # How late after the others a robot may come and still be waited for.
        slack_s = rate.period_s / 2
        if latency_s is not None:
            slack_s = min(slack_s, base_s - latency_s - self._spare_s)
        tolerance_s = max(slack_s, _LEAST_TOLERANCE_PERIODS * rate.period_s)
        return self._pacer.next_step(stream, tolerance_s, (latency_s or 0.0) + self._spare_s)

    def _planned_latency_s(self) -> float | None:
        """What the fullest planned batch takes. None: unknown."""
        share = -(-max(self._pacer.plan.loads) // self._workers.num_workers)
        return self._latencies.expected_s(min(share, self._max_batch))

    def _expect(self, rate: StreamRate, eta_s: float) -> Expected:
        spare_steps = max(rate.cycle_steps, rate.horizon - rate.cycle_steps)
        at_s = eta_s + spare_steps * rate.period_s - self._margin_s
        return Expected(eta_s, Claim(at_s, rate.period_s, rate.horizon), rate.period_s / 2)
