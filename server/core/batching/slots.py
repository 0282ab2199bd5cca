"""In which of the planned batches each stream takes part.

Planned batches follow each other at the cycle of the fastest stream, the base. A stream that needs
a chunk less often takes part in every second, fourth, ... of them, and such streams are spread so
that the fullest batch is as small as possible. Powers of two keep the pattern short, and let a
stream that fits no multiple exactly come a little too often rather than too late.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from server.core.batching.interface import StreamRate

#: The rarest that a stream takes part in planned batches. Slower ones are planned as if they came
#: that often, which hardly counts; a longer pattern would cost the front end time and memory that
#: grow with the ratio of the fastest to the slowest rate.
_MOST_EVERY = 256
#: A cycle this close below a multiple of the base counts as that multiple: 0.3 / 0.1 is below 3.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Slot:
    """Batches offset, offset + every, offset + 2 * every, ... of the plan."""

    every: int
    offset: int

    def first_from(self, index: int) -> int:
        """First batch of the slot from `index` on."""
        return index + (self.offset - index) % self.every


class SlotPlan:
    """The slots of all streams."""

    def __init__(self) -> None:
        self._rates: dict[int, StreamRate] = {}
        self._slots: dict[int, Slot] = {}
        self._base_s: float | None = None
        self._loads: tuple[int, ...] = ()

    @property
    def base_s(self) -> float | None:
        """Time between two planned batches. None: no streams."""
        return self._base_s

    @property
    def cycle_s(self) -> float | None:
        """Time in which every stream takes part once. None: no streams."""
        return None if self._base_s is None else self._base_s * len(self.loads)

    @property
    def rates(self) -> Mapping[int, StreamRate]:
        """Streams in the plan."""
        return self._rates

    @property
    def loads(self) -> tuple[int, ...]:
        """Streams in each planned batch, until the pattern repeats."""
        return self._loads

    def slot(self, stream: int) -> Slot:
        """Where the stream takes part."""
        return self._slots[stream]

    def add(self, stream: int, rate: StreamRate) -> None:
        """Take a stream in. The others keep their slots unless the fullest batch shrinks by it."""
        self._rates[stream] = rate
        kept = dict(self._slots)
        if self._base_s is not None and rate.cycle_s >= self._base_s:
            kept[stream] = _place(_loads(kept.values()), _every(rate, self._base_s))
        self._settle(kept)

    def remove(self, stream: int) -> None:
        """Take a stream out. The others keep their slots unless the fullest batch shrinks by it."""
        if self._rates.pop(stream, None) is None:
            return
        del self._slots[stream]
        self._settle(dict(self._slots))

    def _settle(self, kept: dict[int, Slot]) -> None:
        """Keep these slots if they hold for the present base and no other way is better."""
        base_s = min((rate.cycle_s for rate in self._rates.values()), default=None)
        is_same_base = base_s == self._base_s and len(kept) == len(self._rates)
        self._base_s = base_s
        loads = _loads(kept.values())
        if not is_same_base or fullest_batch(self._rates.values()) < max(loads, default=0):
            kept = _spread(self._rates)
            loads = _loads(kept.values())
        self._slots = kept
        self._loads = loads


def fullest_batch(rates: Collection[StreamRate]) -> int:
    """Streams in the fullest planned batch, if they are spread as well as this module does.

    Each `every` is a power of two and the most frequent streams are placed first, each where the
    fewest are: so no two batches ever differ by more than one stream, and the fullest one holds the
    average, rounded up.
    """
    base_s = min((rate.cycle_s for rate in rates), default=1.0)
    return math.ceil(sum(1.0 / _every(rate, base_s) for rate in rates))


def _spread(rates: Mapping[int, StreamRate]) -> dict[int, Slot]:
    """Slots for all streams, the most frequent placed first."""
    base_s = min((rate.cycle_s for rate in rates.values()), default=1.0)
    every = {stream: _every(rate, base_s) for stream, rate in rates.items()}
    loads = [0] * max(every.values(), default=0)
    slots: dict[int, Slot] = {}
    for stream in sorted(every, key=lambda stream: every[stream]):
        slot = _place(loads, every[stream])
        slots[stream] = slot
        for index in range(slot.offset, len(loads), slot.every):
            loads[index] += 1
    return slots


def _every(rate: StreamRate, base_s: float) -> int:
    ratio = min(rate.cycle_s / base_s, float(_MOST_EVERY))
    return int(2 ** math.floor(math.log2(ratio + _ROUNDING)))


def _loads(slots: Collection[Slot]) -> tuple[int, ...]:
    """Streams in each planned batch until the pattern repeats."""
    length = max((slot.every for slot in slots), default=0)
    loads = [0] * length
    for slot in slots:
        for index in range(slot.offset, length, slot.every):
            loads[index] += 1
    return tuple(loads)


def _place(loads: Sequence[int], every: int) -> Slot:
    """The offset whose fullest batch is the smallest; `loads` is repeated as far as needed."""
    pattern = list(loads or (0,)) * max(1, every // max(1, len(loads)))
    return Slot(every, min(range(every), key=lambda offset: max(pattern[offset::every])))
