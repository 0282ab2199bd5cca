"""Action tier: how many robots share places that each of them needs only part of the time."""

from __future__ import annotations

import math

from robot_sdk.errors import InvalidArgumentError
from server.core.capacity.action import MOST_ROBOTS
from server.core.capacity.checks import whole

#: Of a robot's attempts to run its policy: those in which all places are taken. The study's limit
#: for starved ticks; here nobody starves for it: the robot is refused, and asks again.
FULL_SHARE = 0.01
#: A share that meets the limit on paper must not fail for rounding of floats.
_SLACK = 1e-9
_MOST_PLACES = 1_000_000


def robots_sharing(num_places: int, policy_share: float) -> int:
    """Most robots n, so that a robot finds all places taken by the other n - 1 in 1% at most.

    Each robot runs a policy in `policy_share` of its time, independently of the others, so that the
    number of others that do is binomial. Seen from a robot and not from outside, because robots run
    more of their ticks while many others do, too. Where all run one all the time it is `num_places`
    itself.

    Args:
        num_places: Streams that all replicas together keep in chunks; 0: none, however short.
        policy_share: Above 0, at most 1.

    Returns:
        At least `num_places`; no search goes beyond `MOST_ROBOTS`.

    Raises:
        InvalidArgumentError: A value is out of range.
    """
    whole("places", num_places, 0, _MOST_PLACES)
    if not 0.0 < policy_share <= 1.0:
        raise InvalidArgumentError(
            "out of range",
            field="policy share",
            value=policy_share,
            allowed=("above 0, at most 1",),
        )
    if num_places == 0 or policy_share == 1.0:
        return num_places
    low, high = num_places, max(num_places, MOST_ROBOTS)
    while low < high:
        middle = (low + high + 1) // 2
        if _share_full(middle - 1, num_places, policy_share) <= FULL_SHARE + _SLACK:
            low = middle
        else:
            high = middle - 1
    return low


def _share_full(num_others: int, num_places: int, policy_share: float) -> float:
    """P(X >= num_places) of a binomial X; by logarithms, as its terms leave the range of floats."""
    log_share, log_rest = math.log(policy_share), math.log1p(-policy_share)
    log_all = math.lgamma(num_others + 1)
    below = math.fsum(
        math.exp(
            log_all
            - math.lgamma(busy + 1)
            - math.lgamma(num_others - busy + 1)
            + busy * log_share
            + (num_others - busy) * log_rest
        )
        for busy in range(min(num_places, num_others + 1))
    )
    return max(0.0, 1.0 - below)
