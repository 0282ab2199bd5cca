"""How many blocks the pool really keeps, learned from what was found again and what was lost."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Share of the pool that is taken to survive before anything was lost: the study's rule
#: N_cliff = 0.85 * pool_tokens / mean_context.
PRIOR_SHARE = 0.85
#: Evidence loses half of its weight in this time: models, mixes and engines change.
_HALF_LIFE_S = 1800.0
#: Width of a bin, as a ratio of its two ends: the estimate is that coarse.
_BIN_RATIO = 1.02
#: An estimate is used again for this long.
_REFRESH_S = 5.0
#: Evidence of less than this many turns, after it has faded, is forgotten.
_MIN_WEIGHT = 0.01


@dataclass(frozen=True)
class CapacityEstimate:
    """What the turns so far say.

    Attributes:
        survived_blocks: A prefix was found whole after the others' blocks and its own came to this
            many. None: never seen.
        lost_blocks: Fewest above `survived_blocks` at which one was lost. None: nothing was lost
            that does not count as a stray.
    """

    survived_blocks: int | None = None
    lost_blocks: int | None = None

    def usable_blocks(self, pool_blocks: int | None) -> int | None:
        """Blocks to plan with: PRIOR_SHARE of the pool, corrected by what was seen.

        Args:
            pool_blocks: As the engine or the configuration tells; None: unknown, and then nothing
                can be planned with before something was lost.
        """
        if pool_blocks is None:
            return None if self.lost_blocks is None else self.survived_blocks or 0
        usable = int(PRIOR_SHARE * pool_blocks)
        if self.lost_blocks is not None:
            usable = min(usable, self.lost_blocks)
        return max(usable, self.survived_blocks or 0)


@dataclass
class _Bin:
    hits: float = 0.0
    misses: float = 0.0
    faded_s: float = 0.0

    def fade(self, now_s: float) -> None:
        share = 0.5 ** (max(now_s - self.faded_s, 0.0) / _HALF_LIFE_S)
        self.hits *= share
        self.misses *= share
        self.faded_s = now_s


class CapacityLearner:
    """Finds the size that best separates turns that hit from turns that missed.

    Each turn needs `needed_blocks`: the distinct blocks that others touched since the episode's
    last turn, plus its own prefix. In a least-recently-used pool it hits exactly if that fits. The
    threshold with the least contradicting evidence (misses below it, hits above it) is the
    estimate. A stray miss among many hits therefore moves nothing.

    Memory: one bin for each 2% of size. A turn costs constant time, an estimate the number of bins.
    """

    def __init__(self) -> None:
        self._bins: dict[int, _Bin] = {}
        self._estimate = CapacityEstimate()
        self._estimated_s: float | None = None

    def add(self, needed_blocks: int, hit: bool, now_s: float) -> None:
        """Take in one turn whose need and outcome are known."""
        if needed_blocks < 1:
            return
        index = math.floor(math.log(needed_blocks) / math.log(_BIN_RATIO) + 1e-9)
        bin_ = self._bins.setdefault(index, _Bin(faded_s=now_s))
        bin_.fade(now_s)
        if hit:
            bin_.hits += 1.0
        else:
            bin_.misses += 1.0

    def estimate(self, now_s: float) -> CapacityEstimate:
        """The threshold as of now, or of up to _REFRESH_S ago."""
        if self._estimated_s is None or now_s - self._estimated_s >= _REFRESH_S:
            self._estimated_s = now_s
            self._estimate = self._separate(now_s)
        return self._estimate

    def _separate(self, now_s: float) -> CapacityEstimate:
        for index, bin_ in list(self._bins.items()):
            bin_.fade(now_s)
            if bin_.hits + bin_.misses < _MIN_WEIGHT:
                del self._bins[index]
        in_order = sorted(self._bins.items())
        wrong = least_wrong = sum(bin_.hits for _, bin_ in in_order)
        best = -1
        for place, (_, bin_) in enumerate(in_order):
            wrong += bin_.misses - bin_.hits
            # Sums of faded weights are compared: an equal one must not look smaller by rounding.
            if bin_.hits > bin_.misses and wrong < least_wrong - 1e-9:
                least_wrong, best = wrong, place
        lost = next(
            (index for index, bin_ in in_order[best + 1 :] if bin_.misses > bin_.hits), None
        )
        return CapacityEstimate(
            survived_blocks=None if best < 0 else _low_end(in_order[best][0]),
            lost_blocks=None if lost is None else _low_end(lost),
        )


def _low_end(index: int) -> int:
    return max(math.ceil(_BIN_RATIO**index - 1e-9), 1)
