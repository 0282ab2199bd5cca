"""Which tier runs out first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from server.core.capacity import ActionCapacity, Tier, envelope


def test_seven_robots_on_a_gpu_bind_before_twenty_sessions():
    assert envelope(20, ActionCapacity(7, False, 0.236), num_replicas=1).binds is Tier.ACTION


def test_a_third_gpu_moves_the_limit_to_the_brain():
    both = envelope(20, ActionCapacity(7, False, 0.236), num_replicas=3)
    assert (both.robots, both.binds) == (20, Tier.BRAIN)


def test_a_table_that_ends_at_the_brain_s_cap_leaves_the_brain_to_bind():
    assert envelope(20, ActionCapacity(20, True, 0.1), num_replicas=1).binds is Tier.BRAIN
    assert envelope(20, ActionCapacity(20, False, 0.1), num_replicas=1).binds is Tier.BOTH


@given(st.integers(0, 5_000), st.integers(0, 4_096), st.booleans(), st.integers(1, 64))
def test_the_binding_tier_is_the_one_that_leaves_no_room_for_one_more(
    brain_cap, per_replica, is_at_least, num_replicas
):
    found = envelope(brain_cap, ActionCapacity(per_replica, is_at_least, 0.1), num_replicas)
    assert found.robots <= brain_cap
    assert found.robots <= found.action_robots == per_replica * num_replicas
    if found.binds is not Tier.ACTION:
        assert found.robots == brain_cap
    if found.binds is not Tier.BRAIN:
        assert found.robots == found.action_robots


def test_no_replica_is_refused():
    with pytest.raises(InvalidArgumentError, match="replicas"):
        envelope(20, ActionCapacity(7, False, 0.236), num_replicas=0)
