"""How many observations a free worker takes, and whether it waits for more first.

Pure arithmetic on due times. The rules, in their order:

1. The batch is filled in the order of due times, and is the largest that is done by the earliest.
   What cannot be in time even alone has lost its claim: it fills what room is left.
2. Where several workers are free, each takes its share, so that all are done sooner.
3. It waits for observations that are about to arrive, if one batch with them is still in time for
   the earliest due one and spares the worker more time than the wait takes.
4. Nothing starts that would make a larger number of expected observations late. Thus a robot that
   comes out of step waits for the next common batch, or uses a gap between two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Shortest wait, so that rounding cannot make a driver ask again at the same moment for ever.
_LEAST_WAIT_S = 1e-4


@dataclass(frozen=True)
class Expected:
    """An observation that should arrive soon.

    Attributes:
        eta_s: When.
        due_s: When its chunk must be there.
        patience_s: How long after `eta_s` it is still expected.
    """

    eta_s: float
    due_s: float
    patience_s: float


@dataclass(frozen=True)
class Run:
    """Run the first `size` of the waiting now."""

    size: int


@dataclass(frozen=True)
class Wait:
    """Ask again at `until_s`.

    Attributes:
        for_others: Starting now would make a larger group late; otherwise it is waited for a
            fuller batch, never beyond the latest start of the earliest due one.
    """

    until_s: float
    for_others: bool


@dataclass(frozen=True)
class Choice:
    """What one free worker has to go by.

    Args:
        now_s: Time of the decision.
        due_s: Of those that can still be in time, ascending.
        num_lost: Those that cannot; they come after the others.
        expected: Not arrived yet.
        others_free_at_s: When each other worker is expected to be free.
        latency_s: Expected latency by batch size, non-decreasing.
        max_batch: Most observations in a batch.
        margin_s: Kept between the expected end of a wait and the due time.
    """

    now_s: float
    due_s: Sequence[float]
    num_lost: int
    expected: Sequence[Expected]
    others_free_at_s: Sequence[float]
    latency_s: Callable[[int], float]
    max_batch: int
    margin_s: float

    def decide(self) -> Run | Wait:
        """At least one observation must be waiting."""
        coming = sorted(
            (e for e in self.expected if self.now_s <= e.eta_s + e.patience_s),
            key=lambda e: e.eta_s,
        )
        num_joining, until_s = self._joining(coming)
        share = self._share(self._num_waiting + num_joining)
        if share > self._num_waiting:
            return Wait(max(until_s, self.now_s + _LEAST_WAIT_S), for_others=False)
        for size in range(min(self._largest_in_time(), share), 0, -1):
            if not self._hurts(size, coming):
                return Run(size)
        return Wait(self._end_of_wait_for_others(coming), for_others=True)

    @property
    def _num_waiting(self) -> int:
        return len(self.due_s) + self.num_lost

    @property
    def _earliest_due_s(self) -> float:
        return self.due_s[0] if self.due_s else math.inf

    def _share(self, num_observations: int) -> int:
        """What falls to this worker if those that are free now divide them."""
        num_free = 1 + sum(at_s <= self.now_s for at_s in self.others_free_at_s)
        return min(self.max_batch, math.ceil(num_observations / num_free))

    def _largest_in_time(self) -> int:
        """Largest batch that is done by the earliest due time."""
        size = min(self._num_waiting, self.max_batch)
        while size > 1 and self.now_s + self.latency_s(size) > self._earliest_due_s:
            size -= 1
        return size

    def _joining(self, coming: Sequence[Expected]) -> tuple[int, float]:
        """How many of the coming are worth waiting for, and until when at the latest."""
        due_s, joining = self._earliest_due_s, (0, self.now_s)
        now_alone_s = self.latency_s(min(self.max_batch, self._num_waiting))
        room = self.max_batch * (1 + len(self.others_free_at_s)) - self._num_waiting
        for count, last in enumerate(coming[: max(0, room)], start=1):
            due_s = min(due_s, last.due_s)
            share = self._share(self._num_waiting + count)
            latest_s = due_s - self.margin_s - self.latency_s(share)
            eta_s = max(self.now_s, last.eta_s)
            if eta_s > latest_s or latest_s <= self.now_s:
                break
            together = min(self.max_batch, self._num_waiting + count)
            spared_s = now_alone_s + self.latency_s(count) - self.latency_s(together)
            if eta_s - self.now_s < spared_s:
                joining = (count, min(latest_s, last.eta_s + last.patience_s))
        return joining

    def _hurts(self, size: int, coming: Sequence[Expected]) -> bool:
        """Whether a batch of `size` now would make a larger expected group late."""
        end_s = self.now_s + self.latency_s(size)
        group = _first_group([e for e in coming if e.eta_s <= end_s])
        if len(group) <= size:
            return False
        others = list(self.others_free_at_s)
        return self._can_serve(group, [*others, self.now_s]) and not self._can_serve(
            group, [*others, end_s]
        )

    def _can_serve(self, group: Sequence[Expected], free_at_s: Sequence[float]) -> bool:
        """Whether workers that are free at these times can be in time for the group."""
        due_s = min(e.due_s for e in group) - self.margin_s
        for num_workers in range(1, len(free_at_s) + 1):
            size = math.ceil(len(group) / num_workers)
            if size > self.max_batch:
                continue
            latest_s = due_s - self.latency_s(size)
            if sum(at_s <= latest_s for at_s in free_at_s) >= num_workers:
                return True
        return False

    def _end_of_wait_for_others(self, coming: Sequence[Expected]) -> float:
        group = _first_group(coming)
        until_s = max(e.eta_s + e.patience_s for e in group)
        return max(until_s, self.now_s + _LEAST_WAIT_S)


def _first_group(coming: Sequence[Expected]) -> Sequence[Expected]:
    """Those that are expected together with the first one."""
    if not coming:
        return ()
    end_s = coming[0].eta_s + coming[0].patience_s
    return [e for e in coming if e.eta_s <= end_s]
