"""The order in which the waiting come in: fair between tenants, in order of arrival within one."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence

from server.core.leases import Episode

_DEFAULT_WEIGHT = 1.0


def fair_order(
    waiting: Sequence[Episode], num_inside: Mapping[str, int], weights: Mapping[str, float]
) -> list[Episode]:
    """Who comes in next, and next after that, if one slot after the other becomes free.

    The tenant with the fewest episodes inside for its weight goes first; the earlier arrival
    decides between equals. It looks at what is inside now and not at a history, so a tenant that
    was away for a while has saved nothing up, and one that just arrived is served at once up to its
    share. With one tenant the order is that of arrival.

    Args:
        waiting: In order of arrival.
        num_inside: Episodes inside by tenant.
        weights: By tenant, above 0; 1 for one that is not named.

    Returns:
        The same episodes; O(n log t) for n waiting of t tenants.
    """
    by_tenant: dict[str, deque[tuple[int, Episode]]] = {}
    for arrival, episode in enumerate(waiting):
        by_tenant.setdefault(episode.info.tenant, deque()).append((arrival, episode))
    if len(by_tenant) <= 1:
        return list(waiting)
    inside = {tenant: num_inside.get(tenant, 0) for tenant in by_tenant}
    heap = [
        (inside[tenant] / weights.get(tenant, _DEFAULT_WEIGHT), queue[0][0], tenant)
        for tenant, queue in by_tenant.items()
    ]
    heapq.heapify(heap)
    order = []
    while heap:
        _, _, tenant = heap[0]
        order.append(by_tenant[tenant].popleft()[1])
        inside[tenant] += 1
        if by_tenant[tenant]:
            share = inside[tenant] / weights.get(tenant, _DEFAULT_WEIGHT)
            heapq.heapreplace(heap, (share, by_tenant[tenant][0][0], tenant))
        else:
            heapq.heappop(heap)
    return order
