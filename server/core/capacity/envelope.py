"""Which of the two tiers runs out first."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from server.core.capacity.action import ActionCapacity
from server.core.capacity.checks import whole
from server.core.capacity.sharing import robots_sharing


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
        action_streams: Robots that all replicas together keep in chunks at one time.
        action_robots: Robots that share these places.
        is_at_least: The action tier carries at least that many; its latency table ends there.
    """

    robots: int
    binds: Tier
    action_streams: int
    action_robots: int
    is_at_least: bool


def envelope(
    brain_cap: int, per_replica: ActionCapacity, num_replicas: int, policy_share: float = 1.0
) -> Envelope:
    """The smaller of both tiers.

    Args:
        brain_cap: Episodes that the brain carries, for example `starting_cap`.
        per_replica: Robots are spread evenly over the replicas, one on each GPU.
        num_replicas: At least 1.
        policy_share: Part of the time in which a robot inside runs its policy; 1: all of them may
            run theirs at the same time, for as long as they like.

    Raises:
        InvalidArgumentError: A value is out of range.
    """
    whole("brain cap", brain_cap, 0, 2_000_000_000)
    whole("replicas", num_replicas, 1, 100_000)
    streams = per_replica.robots * num_replicas
    action_robots = robots_sharing(streams, policy_share)
    if brain_cap < action_robots or (brain_cap == action_robots and per_replica.is_at_least):
        binds = Tier.BRAIN
    else:
        binds = Tier.ACTION if action_robots < brain_cap else Tier.BOTH
    robots = min(brain_cap, action_robots)
    return Envelope(robots, binds, streams, action_robots, per_replica.is_at_least)
