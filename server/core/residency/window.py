"""Sums over the last two minutes of turns, in memory that does not grow with their number."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from server.core.residency.footprint import PrefixOutcome, TurnFootprint

#: The study's window for the full-prefix hit rate.
WINDOW_S = 120.0
#: The window moves by this much at a time.
_SLOT_S = 1.0


@dataclass
class WindowSums:
    """Turns and tokens of a span of time.

    The sums of tokens are those of the `num_measured` turns whose computed tokens are known.
    `least_computed_tokens` is what would have been computed had every reusable prefix been cached.
    """

    num_hits: int = 0
    num_misses: int = 0
    num_unknown: int = 0
    num_measured: int = 0
    computed_tokens: int = 0
    least_computed_tokens: int = 0
    generated_tokens: int = 0

    @property
    def num_counted(self) -> int:
        """Turns that had a prefix to lose and of which it is known whether they lost it."""
        return self.num_hits + self.num_misses

    def hit_is_below(self, share: float, least_counted: int) -> bool:
        """Whether at least so many counted turns say that fewer than this share were cached."""
        hit = self.full_prefix_hit
        return hit is not None and hit < share and self.num_counted >= least_counted

    @property
    def full_prefix_hit(self) -> float | None:
        """Share of the counted turns whose whole reusable prefix was cached. None: none counted."""
        return self.num_hits / self.num_counted if self.num_counted else None

    @property
    def computed_per_generated(self) -> float | None:
        """Prompt tokens computed for one token generated. None: nothing generated."""
        return self.computed_tokens / self.generated_tokens if self.generated_tokens else None

    @property
    def least_computed_per_generated(self) -> float | None:
        """The same ratio if nothing had been lost."""
        return self.least_computed_tokens / self.generated_tokens if self.generated_tokens else None

    def add(self, other: WindowSums, sign: int = 1) -> None:
        """Add another span; with `sign` -1 take it away."""
        self.num_hits += sign * other.num_hits
        self.num_misses += sign * other.num_misses
        self.num_unknown += sign * other.num_unknown
        self.num_measured += sign * other.num_measured
        self.computed_tokens += sign * other.computed_tokens
        self.least_computed_tokens += sign * other.least_computed_tokens
        self.generated_tokens += sign * other.generated_tokens


class PrefixWindow:
    """A moving window in slots of one second: constant memory, constant time per turn.

    Time must not run backwards; a turn that seems older than the newest slot joins that one.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.window_s = window_s
        self.sums = WindowSums()
        self._num_slots = max(math.ceil(window_s / _SLOT_S), 1)
        self._slots: deque[tuple[int, WindowSums]] = deque()

    def add(self, turn: TurnFootprint, outcome: PrefixOutcome) -> None:
        """Count one turn."""
        self.expire(turn.committed_s)
        one = WindowSums(
            num_hits=outcome is PrefixOutcome.HIT,
            num_misses=outcome is PrefixOutcome.MISS,
            num_unknown=outcome is PrefixOutcome.UNKNOWN,
        )
        if turn.computed_tokens is not None:
            one.num_measured = 1
            one.computed_tokens = turn.computed_tokens
            one.least_computed_tokens = turn.least_computed_tokens
            one.generated_tokens = turn.output_tokens
        slot = math.floor(turn.committed_s / _SLOT_S)
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, WindowSums()))
        self._slots[-1][1].add(one)
        self.sums.add(one)

    def expire(self, now_s: float) -> None:
        """Drop what is older than the window."""
        first = math.floor(now_s / _SLOT_S) - self._num_slots
        while self._slots and self._slots[0][0] <= first:
            self.sums.add(self._slots.popleft()[1], sign=-1)
