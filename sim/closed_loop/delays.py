"""How long a robot's door and brain turns take, drawn from episodes of a replayed fleet."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class EpisodeDelays:
    """What one episode of a fleet went through.

    Attributes:
        door_wait_s: At the door, before the world begins.
        turn_latencies_s: Brain turns in order, as the robot sees them, seconds. At least one.
    """

    door_wait_s: float
    turn_latencies_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.turn_latencies_s:
            raise ValueError("turn_latencies_s is empty; give at least one turn's latency")
        for value in (self.door_wait_s, *self.turn_latencies_s):
            if not 0.0 <= value < float("inf"):
                raise ValueError(f"a delay is {value}; it must be seconds, at least 0")

    def turn_s(self, index: int) -> float:
        """Of the turn `index`, from 0. An episode with more turns than this one stays at the last
        half of it: a conversation's later turns say most about those that would have followed.
        """
        known = self.turn_latencies_s
        if index < len(known):
            return known[index]
        later = known[len(known) // 2 :]
        return later[(index - len(known)) % len(later)]


#: A brain that answers at once; for what chunks alone do.
NO_DELAYS = EpisodeDelays(0.0, (0.0,))


def draw(episodes: Sequence[EpisodeDelays], *names: object) -> EpisodeDelays:
    """One of them; the same for the same names, whatever is drawn beside it.

    Raises:
        ValueError: There is none to draw from.
    """
    if not episodes:
        raise ValueError("no episode to draw delays from; replay for longer or drop the warm-up")
    return random.Random(repr(names)).choice(episodes)
