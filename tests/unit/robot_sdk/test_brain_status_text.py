"""The door and the brain's cache in the operator's table."""

from __future__ import annotations

from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.brain_status_text import cache_lines, door_lines


def test_every_known_figure_is_shown_with_its_unit() -> None:
    lines = cache_lines(
        fleet_pb2.BrainStatus(
            prefix=fleet_pb2.PrefixStatus(
                window_s=120,
                turns_in_window=230,
                full_prefix_hit=0.475,
                computed_per_generated=375.0,
                baseline_computed_per_generated=26.0,
                computed_tokens_per_min=1_500_000,
                generated_tokens_per_min=4000,
                reuse_distance_blocks_p50=3900,
                reuse_distance_blocks_p90=4100,
                working_set_tokens=3_040_000,
                working_set_blocks=3900,
                forecast_blocks=4500,
                learned_capacity_blocks=3584,
                mean_context_tokens=95_000,
                refreshes_found_total=1200,
                refreshes_lost_total=3,
            ),
            load=fleet_pb2.EngineLoad(
                pool_blocks=4270,
                block_tokens=784,
                kv_cache_usage=0.31,
                requests_running=3,
                requests_waiting=9,
                preemptions_total=0,
            ),
            alerts=[fleet_pb2.Alert(name="n", evidence="seen", advice="do", age_s=65.2)],
        )
    )

    assert lines == [
        "  prefixes of the last 120 s: 47.5% of 230 turns found theirs whole; 375.0 tokens "
        "computed for one generated (healthy 26.0); per minute 1,500,000 computed, "
        "4,000 generated",
        "  working set: 3,040,000 tokens, 3,900 blocks, 4,500 when grown; 3,584 seen to survive; "
        "mean context 95,000 tokens; reuse distance 3,900 blocks in the median, 4,100 at 90%",
        "  refreshed: 1,203 prefixes so far, 3 of them too late",
        "  engine: pool 4,270 blocks of 784 tokens, 31% held by running requests, 3 running, "
        "9 waiting, 0 preempted so far",
        "  ALERT n, for 65 s: seen",
        "    do",
    ]


def test_what_is_unknown_is_not_shown_as_zero() -> None:
    lines = cache_lines(
        fleet_pb2.BrainStatus(
            prefix=fleet_pb2.PrefixStatus(
                window_s=120, working_set_tokens=500, refreshes_found_total=0
            ),
            load=fleet_pb2.EngineLoad(requests_running=2),
        )
    )

    assert lines == [
        "  prefixes of the last 120 s: no turn counted",
        "  working set: 500 tokens",
        "  engine: 2 running",
    ]


def test_an_older_server_shows_nothing_more() -> None:
    assert cache_lines(fleet_pb2.BrainStatus()) == []
    assert door_lines(fleet_pb2.AdmissionStatus(policy="unlimited")) == []


def test_the_door_says_what_it_counts_and_on_what_it_decides() -> None:
    admission = fleet_pb2.AdmissionStatus(
        forecast_blocks=3400, capacity_blocks=3629, detail="forecast\nfrom 9"
    )

    assert door_lines(admission) == ["  3,400 of 3,629 KV blocks are spoken for; forecast from 9"]


def test_text_of_a_server_cannot_command_the_terminal() -> None:
    alert = fleet_pb2.Alert(name="n", evidence="\x1b[2J", advice="\x1b]0;x\x07")

    assert "\x1b" not in "".join(cache_lines(fleet_pb2.BrainStatus(alerts=[alert])))
