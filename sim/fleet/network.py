"""Messages between robots and server: late by a little, never out of order."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkModel:
    """One-way delay of a message: uniform from `delay_s` to `delay_s + 2 * jitter_s`.

    That is a mean of delay_s + jitter_s, plus or minus jitter_s.
    """

    delay_s: float = 0.001
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("delay_s", "jitter_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be seconds, at least 0")

    @property
    def best_round_trip_s(self) -> float:
        """What a clock exchange finds after some rounds."""
        return 2 * self.delay_s


class Link:
    """One direction of one stream; as on TCP, a message never overtakes the one before."""

    def __init__(self, model: NetworkModel, chance: random.Random) -> None:
        self._model = model
        self._chance = chance
        self._last_s = 0.0

    def arrival_s(self, sent_s: float) -> float:
        """When a message that is sent now arrives."""
        delay_s = self._model.delay_s + 2 * self._model.jitter_s * self._chance.random()
        self._last_s = max(self._last_s, sent_s + delay_s)
        return self._last_s
