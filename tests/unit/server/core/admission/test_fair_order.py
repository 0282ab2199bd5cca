from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.core.admission import fair_order
from server.core.leases import Episode, EpisodeInfo, Phase


def waiting(tenants: str) -> list[Episode]:
    """One episode of each letter's tenant, in order of arrival."""
    return [
        Episode(f"{tenant}{n}", "", EpisodeInfo(f"{tenant}{n}", tenant), Phase.QUEUED, n, 0.0)
        for n, tenant in enumerate(tenants)
    ]


def names(order: list[Episode]) -> str:
    return "".join(episode.info.tenant for episode in order)


def test_one_tenant_is_served_in_order_of_arrival() -> None:
    queue = waiting("aaa")

    assert fair_order(queue, {"a": 5}, {}) == queue


def test_tenants_take_turns_however_many_one_has_sent() -> None:
    assert names(fair_order(waiting("aaaab"), {}, {})) == "abaaa"


def test_who_has_fewest_inside_comes_first() -> None:
    assert names(fair_order(waiting("aabb"), {"a": 3, "b": 1}, {})) == "bbaa"


def test_a_tenant_of_weight_two_gets_two_places_for_one() -> None:
    assert names(fair_order(waiting("aaabbbbbb"), {}, {"b": 2.0})) == "abbabbabb"


def test_equals_come_in_order_of_arrival() -> None:
    assert names(fair_order(waiting("cab"), {}, {})) == "cab"


@given(
    st.text("abc", max_size=30),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)),
    st.dictionaries(st.sampled_from("abc"), st.floats(0.1, 10)),
)
def test_nobody_is_lost_and_each_tenant_stays_in_order(
    tenants: str, inside: dict[str, int], weights: dict[str, float]
) -> None:
    queue = waiting(tenants)
    order = fair_order(queue, inside, weights)

    assert sorted(e.episode_id for e in order) == sorted(e.episode_id for e in queue)
    for tenant in "abc":
        arrivals = [e.opened_s for e in order if e.info.tenant == tenant]
        assert arrivals == sorted(arrivals)


@given(st.text("ab", min_size=2, max_size=40), st.floats(0.2, 5))
def test_filled_one_by_one_shares_differ_by_at_most_one_episode(
    tenants: str, weight: float
) -> None:
    weights = {"b": weight}
    inside = {"a": 0, "b": 0}
    order = fair_order(waiting(tenants), {}, weights)
    left = {tenant: tenants.count(tenant) for tenant in "ab"}
    for episode in order:
        tenant = episode.info.tenant
        other = "a" if tenant == "b" else "b"
        if left[other]:
            share = inside[tenant] / weights.get(tenant, 1.0)
            assert share <= inside[other] / weights.get(other, 1.0)
        inside[tenant] += 1
        left[tenant] -= 1
