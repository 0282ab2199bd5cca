"""Which of the two tiers runs out first."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from server.core.capacity.action import ActionCapacity
from server.core.capacity.checks import whole


class Tier(enum.Enum):
    """What limits the number of robots."""

    BRAIN = "brain"
    ACTION = "action"
    BOTH = "both"


@dataclass(frozen=True)
class Envelope:
    """What a box carries.

    Attributes:
        robots: Robots inside at once.
        binds: The tier that a further robot would overload first.
        action_robots: Robots that all replicas together keep in chunks.
        is_at_least: The action tier carries at least that many; its latency table ends there.
    """

    robots: int
    binds: Tier
    action_robots: int
    is_at_least: bool


def envelope(brain_cap: int, per_replica: ActionCapacity, num_replicas: int) -> Envelope:
    """The smaller of both tiers, if every robot inside may run its policy at the same time.

    `brain_cap` is the number of episodes that the brain carries, for example `starting_cap`.
    Robots are spread evenly over the replicas, one on each GPU.
    """
    whole("brain cap", brain_cap, 0, 2_000_000_000)
    whole("replicas", num_replicas, 1, 100_000)
    action_robots = per_replica.robots * num_replicas
    if brain_cap < action_robots or (brain_cap == action_robots and per_replica.is_at_least):
        binds = Tier.BRAIN
    else:
        binds = Tier.ACTION if action_robots < brain_cap else Tier.BOTH
    return Envelope(min(brain_cap, action_robots), binds, action_robots, per_replica.is_at_least)
