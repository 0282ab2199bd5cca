from __future__ import annotations

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.policy_status_text import batcher_lines


def test_a_paced_policy_shows_its_cycle_and_what_one_more_robot_could_have() -> None:
    policy = fleet_pb2.PolicyStatus(
        batcher="deadline",
        open_streams=7,
        cycle_s=0.25,
        sustainable_control_hz=17.94,
        expired_total=3,
        refused_streams_total=1,
        latencies=[
            fleet_pb2.BatchLatency(batch_size=1, latency_s=0.16),
            fleet_pb2.BatchLatency(batch_size=7, latency_s=0.236),
        ],
    )

    assert batcher_lines(policy) == [
        "  deadline batches, 7 open streams; each served every 250 ms; one more could run at "
        "17.9 Hz; 3 observations expired; 1 stream refused; ms by batch size 1: 160, 7: 236"
    ]


def test_a_batcher_that_does_not_pace_shows_no_cycle() -> None:
    policy = fleet_pb2.PolicyStatus(batcher="fifo", open_streams=1)

    assert batcher_lines(policy) == ["  fifo batches, 1 open stream"]


def test_an_older_server_shows_nothing_more() -> None:
    assert batcher_lines(fleet_pb2.PolicyStatus(name="flow")) == []
