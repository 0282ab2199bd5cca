"""Action tier: how many robots share places that each of them needs only part of the time."""

from __future__ import annotations

import math

from robot_sdk.errors import InvalidArgumentError
from server.core.capacity.action import MOST_ROBOTS
from server.core.capacity.checks import whole

#: Of the time, in which more robots want a place than there are. The study's limit for starved
#: ticks; here nobody starves for it: a stream too many is refused, and its robot asks again.
OVERLOADED_SHARE = 0.01
_MOST_PLACES = 1_000_000


def robots_sharing(num_places: int, policy_share: float) -> int:
    """Most robots n with P(more than `num_places` of n run a policy at once) <= 1%.

    Each robot runs one in `policy_share` of its time, independently of the others, so that the
    number at once is binomial. Where all run one all the time it is `num_places` itself.

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
        if _share_overloaded(middle, num_places, policy_share) <= OVERLOADED_SHARE:
            low = middle
        else:
            high = middle - 1
    return low


def _share_overloaded(num_robots: int, num_places: int, policy_share: float) -> float:
    """P(X > num_places) of a binomial X; by logarithms, as its terms leave the range of floats."""
    log_share, log_rest = math.log(policy_share), math.log1p(-policy_share)
    log_all = math.lgamma(num_robots + 1)
    within = math.fsum(
        math.exp(
            log_all
            - math.lgamma(busy + 1)
            - math.lgamma(num_robots - busy + 1)
            + busy * log_share
            + (num_robots - busy) * log_rest
        )
        for busy in range(min(num_places, num_robots) + 1)
    )
    return max(0.0, 1.0 - within)
