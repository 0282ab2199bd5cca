from __future__ import annotations

import random

import pytest

from sim.fleet.network import Link, NetworkModel


def test_messages_take_the_delay_and_up_to_twice_the_jitter_more() -> None:
    link = Link(NetworkModel(0.001, 0.005), random.Random(0))
    delays_s = [link.arrival_s(float(second)) - second for second in range(500)]
    assert 0.001 <= min(delays_s) < 0.002
    assert 0.010 < max(delays_s) <= 0.011


def test_a_message_never_overtakes_the_one_before() -> None:
    link = Link(NetworkModel(0.001, 0.005), random.Random(0))
    arrivals_s = [link.arrival_s(0.001 * place) for place in range(200)]
    assert arrivals_s == sorted(arrivals_s)


@pytest.mark.parametrize("field", ["delay_s", "jitter_s"])
def test_a_network_that_cannot_be_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is -1"):
        NetworkModel(**{field: -1.0})
