"""How many observations a free worker takes, and whether it waits for more first.

Pure arithmetic on due times. The rules, in their order:

1. Wait for observations that are about to arrive, if one batch with them is still in time for the
   earliest due one, and spares the worker more time than the wait takes. Never beyond the latest
   start of the earliest due one.
2. Otherwise run, in the order of due times, the largest batch that is done by the earliest; where
   several workers are free, each takes its share.
3. That rule leaves the rest for later, which may cost them a whole cycle for a millisecond of the
   first one. So it is weighed against running all that wait, and against waiting for the next
   group, by the control steps that robots would be late by, squared and added up: the least wins.
   Squared, because a step without an action for each of seven robots is a stutter, and seven steps
   for one of them a stop. A robot that comes out of step thus uses a gap between two common
   batches or joins the next one, and does not delay it; one that is overdue is not waited for at
   the cost of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

#: Shortest wait, so that rounding cannot make a driver ask again at the same moment for ever.
_LEAST_WAIT_S = 1e-4
#: Times closer than this are equal.
_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class Claim:
    """What an observation asks for.

    Attributes:
        due_s: When its chunk must be there for its robot not to starve.
        period_s: The robot's control period.
        num_rows: Rows in a chunk; one that is later than so many steps is of no use.
    """

    due_s: float
    period_s: float
    num_rows: int

    def late_steps(self, end_s: float) -> int:
        """Steps without a row if the chunk comes at `end_s`."""
        late_s = end_s - self.due_s - _ROUNDING_S
        if late_s <= 0:
            return 0
        # Compared before it is divided: the quotient may be beyond what a float holds.
        if late_s >= self.num_rows * self.period_s:
            return self.num_rows
        return math.ceil(late_s / self.period_s)


@dataclass(frozen=True)
class Expected:
    """An observation that should arrive soon.

    Attributes:
        eta_s: When.
        claim: What it will ask for.
        patience_s: How long after `eta_s` it is still expected.
    """

    eta_s: float
    claim: Claim
    patience_s: float


@dataclass(frozen=True)
class Run:
    """Run the first `size` of the waiting now."""

    size: int


@dataclass(frozen=True)
class Wait:
    """Ask again at `until_s`, or when something arrives.

    Attributes:
        costs_steps: A waiting observation will be late by it, and others would be by more without.
            Otherwise the wait ends before the latest start of the earliest due one.
    """

    until_s: float
    costs_steps: bool


@dataclass(frozen=True)
class Choice:
    """What one free worker has to go by.

    Args:
        now_s: Time of the decision.
        claims: Of those that wait, in the order in which they are to be run; at least one.
        expected: Not arrived yet.
        others_free_at_s: When each other worker is expected to be free.
        latency_s: Expected latency by batch size, non-decreasing.
        max_batch: Most observations in a batch.
        tolerance_s: How long an overdue observation may still be waited for at others' cost.
        spare_s: How long before a due time a batch should be done, as long as that costs nobody a
            step: the way back to the robots may be slower than usual. Leaving a robot out to keep
            this time would be certain to cost it several.
    """

    now_s: float
    claims: Sequence[Claim]
    expected: Sequence[Expected]
    others_free_at_s: Sequence[float]
    latency_s: Callable[[int], float]
    max_batch: int
    tolerance_s: float
    spare_s: float = 0.0

    def decide(self) -> Run | Wait:
        """Run some of the waiting, or wait."""
        num_waiting = len(self.claims)
        coming = sorted(
            (e for e in self.expected if self.now_s <= e.eta_s + e.patience_s),
            key=lambda e: e.eta_s,
        )
        num_joining, until_s = self._joining(coming)
        share = self._share(num_waiting + num_joining)
        if share > num_waiting:
            return Wait(max(until_s, self.now_s + _LEAST_WAIT_S), costs_steps=False)
        group = self._next_group(coming)
        sizes = (
            min(self._largest_in_time(), share),
            share,
            self._share(num_waiting),
            min(num_waiting, self.max_batch),
        )
        # Of sizes that cost the same, the first.
        cost, _, size = min(
            (self._cost_of_running(size, group), place, size) for place, size in enumerate(sizes)
        )
        if group and self._cost_of_waiting(group) < cost:
            until_s = max(group[-1].eta_s + self.tolerance_s, self.now_s + _LEAST_WAIT_S)
            return Wait(until_s, costs_steps=True)
        return Run(size)

    def _share(self, num_observations: int) -> int:
        """What falls to this worker if those that are free now divide them."""
        return min(self.max_batch, -(-num_observations // self._num_free))

    @cached_property
    def _num_free(self) -> int:
        return 1 + sum(at_s <= self.now_s for at_s in self.others_free_at_s)

    def _largest_in_time(self) -> int:
        """Largest batch that is done by the earliest due time; 1 if none is."""
        size = min(len(self.claims), self.max_batch)
        due_s = self._earliest_due_s() - self.spare_s
        while size > 1 and self.now_s + self.latency_s(size) > due_s + _ROUNDING_S:
            size -= 1
        return size

    def _earliest_due_s(self) -> float:
        """Of those that can still be in time if they run alone."""
        soonest_s = self.now_s + self.latency_s(1)
        return min((c.due_s for c in self.claims if c.due_s >= soonest_s), default=math.inf)

    def _joining(self, coming: Sequence[Expected]) -> tuple[int, float]:
        """How many of the coming to wait for by the first rule, and until when at the latest."""
        num_waiting = len(self.claims)
        due_s, joining = self._earliest_due_s(), (0, self.now_s)
        now_alone_s = self.latency_s(min(self.max_batch, num_waiting))
        for count, last in enumerate(coming[: self._room()], start=1):
            due_s = min(due_s, last.claim.due_s)
            together_s = self.latency_s(min(self.max_batch, num_waiting + count))
            latest_s = (due_s - self.spare_s) - (
                together_s
                if self._num_free == 1
                else self.latency_s(self._share(num_waiting + count))
            )
            eta_s = max(self.now_s, last.eta_s)
            if eta_s > latest_s or latest_s <= self.now_s:
                break
            later_s = self.latency_s(min(self.max_batch, count))
            spared_s = now_alone_s + later_s - together_s
            if eta_s - self.now_s < spared_s:
                joining = (count, min(latest_s, last.eta_s + last.patience_s))
        return joining

    def _room(self) -> int:
        """How many more than those that wait all workers could take at once."""
        return max(0, self.max_batch * (1 + len(self.others_free_at_s)) - len(self.claims))

    def _next_group(self, coming: Sequence[Expected]) -> Sequence[Expected]:
        """Those that are expected together next, without the overdue."""
        punctual = [e for e in coming if e.eta_s >= self.now_s - self.tolerance_s]
        if not punctual:
            return ()
        end_s = punctual[0].eta_s + punctual[0].patience_s
        return [e for e in punctual if e.eta_s <= end_s][: self._room()]

    def _cost_of_running(self, size: int, group: Sequence[Expected]) -> int:
        """Cost of lateness if the first `size` run now, and the others and the group after that."""
        end_s = self.now_s + self.latency_s(size)
        rest = self.claims[size:]
        coming = [e.claim for e in group]
        cost = _lateness_cost(self.claims[:size], end_s)
        free_at_s = sorted([*self.others_free_at_s, end_s])
        if not group or group[-1].eta_s > end_s:
            rest_end_s = self._end_s(len(rest), self.now_s, free_at_s)
            cost += _lateness_cost(rest, rest_end_s)
            if rest:
                free_at_s = sorted([*free_at_s[1:], rest_end_s])
        else:
            coming += rest
        if coming:
            cost += _lateness_cost(coming, self._end_s(len(coming), group[-1].eta_s, free_at_s))
        return cost

    def _cost_of_waiting(self, group: Sequence[Expected]) -> int:
        """Cost of lateness if those that wait run together with the group."""
        claims = [*self.claims, *(e.claim for e in group)]
        free_at_s = sorted([*self.others_free_at_s, self.now_s])
        start_s = max(self.now_s, group[-1].eta_s)
        return _lateness_cost(claims, self._end_s(len(claims), start_s, free_at_s))

    def _end_s(self, num_observations: int, start_s: float, free_at_s: Sequence[float]) -> float:
        """When so many are done if as many workers as is best divide them from `start_s` on."""
        end_s = math.inf
        for num_workers, at_s in enumerate(free_at_s, start=1):
            size = math.ceil(num_observations / num_workers)
            rounds = math.ceil(size / self.max_batch)
            size = math.ceil(size / max(1, rounds))
            took_s = rounds * self.latency_s(size) if size else 0.0
            end_s = min(end_s, max(start_s, at_s) + took_s)
        return end_s


def _lateness_cost(claims: Iterable[Claim], end_s: float) -> int:
    """Steps squared, see the module."""
    return sum(claim.late_steps(end_s) ** 2 for claim in claims)
