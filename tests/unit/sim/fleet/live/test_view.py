from __future__ import annotations

from robot_sdk.api.v1 import fleet_pb2
from sim.fleet.live.view import decode_look


def test_what_a_status_leaves_out_is_unknown_and_not_zero() -> None:
    look = decode_look(fleet_pb2.FleetStatus())
    assert look.gauges.pool_blocks is None
    assert look.gauges.snapshot_interval_tokens is None
    assert look.working_set_blocks is None
    assert look.cap is None
    assert look.working_set_share == 0.0


def test_a_status_says_who_is_inside_and_what_the_pool_holds() -> None:
    look = decode_look(
        fleet_pb2.FleetStatus(
            admission=fleet_pb2.AdmissionStatus(
                policy="static-cap", cap=16, active_episodes=15, queued_episodes=3
            ),
            brain=fleet_pb2.BrainStatus(
                load=fleet_pb2.EngineLoad(
                    pool_blocks=100, block_tokens=784, snapshot_interval_tokens=0
                ),
                prefix=fleet_pb2.PrefixStatus(working_set_blocks=120),
            ),
        )
    )
    assert (look.policy, look.cap, look.num_active, look.num_at_door) == ("static-cap", 16, 15, 3)
    assert look.gauges.snapshot_interval_tokens == 0
    assert look.working_set_share == 1.2
