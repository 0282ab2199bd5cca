"""Whether one more robot still fits into the action tier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from server.core.batching.interface import HIGHEST_CONTROL_HZ, LOWEST_CONTROL_HZ, StreamRate
from server.core.batching.latency_learner import LatencyLearner
from server.core.batching.slots import fullest_batch

#: Step of the search among rates above those of the others.
_RATE_STEP = 1.02
#: How often the longest cycle looked for is twice that of the fastest stream.
_NUM_DOUBLINGS = 8


class TierAdmission:
    """A set of streams fits if each planned batch is done before the next one is due.

    Args:
        latencies: What a batch takes. While nothing is known, everything fits.
        max_batch: Most observations in a batch.
        margin_s: Part of a cycle that is lost between robot and worker at present: the network
            both ways, and the front end.
    """

    def __init__(
        self, latencies: LatencyLearner, max_batch: int, margin_s: Callable[[], float]
    ) -> None:
        self._latencies = latencies
        self._max_batch = max_batch
        self._margin_s = margin_s

    def largest_batch(self, budget_s: float) -> int:
        """Largest batch that is done within the budget; 0: not even one observation."""
        low, high = 0, self._max_batch
        while low < high:
            middle = (low + high + 1) // 2
            latency_s = self._latencies.expected_s(middle)
            if latency_s is None or latency_s + self._margin_s() <= budget_s:
                low = middle
            else:
                high = middle - 1
        return low

    def fits(self, rates: Iterable[StreamRate], num_workers: int) -> bool:
        """Whether streams of these rates can all be carried by so many workers."""
        together = list(rates)
        if not together or self._latencies.expected_s(1) is None:
            return True
        base_s = min(rate.cycle_s for rate in together)
        return fullest_batch(together) <= num_workers * self.largest_batch(base_s)

    def highest_hz(
        self,
        rates: Iterable[StreamRate],
        one_more: StreamRate,
        num_workers: int,
        below_hz: float | None = None,
    ) -> float | None:
        """Highest control rate at which one more stream fits beside those of `rates`.

        Args:
            rates: Of the streams that are there.
            one_more: Its executed steps and horizon; its rate does not matter.
            num_workers: Workers that share the load.
            below_hz: Look below this rate only. None: below what a batch of one allows.

        Returns:
            The rate, to within 2%. None: no rate fits, or nothing is known of the latency.
        """
        alone_s = self._latencies.expected_s(1)
        if alone_s is None:
            return None
        others = list(rates)
        budget_s = alone_s + self._margin_s()
        limit_hz = min(HIGHEST_CONTROL_HZ, one_more.cycle_steps / budget_s)
        if below_hz is not None:
            limit_hz = min(limit_hz, below_hz)
        for control_hz in _candidates_hz(others, one_more, limit_hz):
            if control_hz < LOWEST_CONTROL_HZ:
                return None
            if self.fits([*others, replace(one_more, control_hz=control_hz)], num_workers):
                return control_hz
        return None


def _candidates_hz(
    others: Sequence[StreamRate], one_more: StreamRate, limit_hz: float
) -> Iterator[float]:
    """Rates worth trying up to the limit, highest first.

    Below the fastest of the others it only matters in which of the planned batches the stream takes
    part, and the shortest cycle for that is the base times a power of two. So a status that asks
    for this costs the front end some tries, not hundreds.
    """
    if not others:
        yield limit_hz
        return
    base_hz = one_more.cycle_steps / min(other.cycle_s for other in others)
    control_hz = limit_hz
    while control_hz > base_hz:
        yield control_hz
        control_hz /= _RATE_STEP
    doubled_hz = [base_hz / 2**power for power in range(_NUM_DOUBLINGS + 1)]
    if limit_hz < base_hz:
        yield limit_hz
    yield from (rate_hz for rate_hz in doubled_hz if rate_hz <= limit_hz)
