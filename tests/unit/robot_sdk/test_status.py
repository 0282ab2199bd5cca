"""The operator's table."""

from __future__ import annotations

from robot_sdk.api.v1 import episode_pb2, fleet_pb2
from robot_sdk.brain_status_text import POOL_UNKNOWN
from robot_sdk.status import render_status


def _status(**fields: object) -> fleet_pb2.FleetStatus:
    return fleet_pb2.FleetStatus(
        server_boot_id="0123456789abcdef",
        uptime_s=61.7,
        admission=fleet_pb2.AdmissionStatus(
            policy="static-cap", cap=1, active_episodes=1, queued_episodes=1, reason="cap reached"
        ),
        **fields,  # type: ignore[arg-type]
    )


def test_the_table_names_admission_brain_policies_and_episodes() -> None:
    text = render_status(
        _status(
            brain=fleet_pb2.BrainStatus(engine="demo-planner", ready=True, running_turns=2),
            policies=[fleet_pb2.PolicyStatus(name="flow-libero", workers=2, ready_workers=1)],
            episodes=[
                fleet_pb2.EpisodeStatus(
                    episode_id="ep-1",
                    robot_id="robot-0",
                    phase=fleet_pb2.EPISODE_PHASE_ADMITTED,
                    connected=True,
                    robot_state=episode_pb2.RobotState(buffered_steps=0),
                    task="pick up the milk",
                ),
                fleet_pb2.EpisodeStatus(
                    robot_id="robot-1", phase=fleet_pb2.EPISODE_PHASE_QUEUED, queue_position=1
                ),
            ],
        )
    )

    assert "static-cap: 1 active (cap 1), 1 queued" in text
    assert "cap reached" in text
    assert "brain demo-planner" in text
    assert "ready, 2 running" in text
    assert "policy flow-libero: 1 of 2 workers ready" in text
    first, second = text.splitlines()[-2:]
    assert first.split()[:3] == ["ep-1", "robot-0", "running"]
    assert first.endswith("0  pick up the milk")
    assert second.split()[:4] == ["-", "robot-1", "queued", "1"]


def test_a_server_without_a_brain_shows_no_brain() -> None:
    assert "brain" not in render_status(_status())


def test_no_cap_is_not_a_cap_of_zero() -> None:
    status = fleet_pb2.FleetStatus(admission=fleet_pb2.AdmissionStatus(policy="unlimited"))

    assert "admission unlimited: 0 active, 0 queued" in render_status(status)


def test_while_the_brain_loads_nobody_is_asked_to_set_the_size_of_its_pool() -> None:
    status = _status(brain=fleet_pb2.BrainStatus(engine="vllm", problem="it is loading"))
    status.admission.detail = f"slow start: 2 at once, {POOL_UNKNOWN} and no prefix was seen"
    status.admission.reason = f"forecast cap: 2 inside; {POOL_UNKNOWN}"

    loading = render_status(status)
    status.brain.ready = True
    loaded = render_status(status)

    assert loading.count("the pool's size is not told yet (the brain is not ready)") == 2
    assert "admission.pool_blocks" not in loading
    assert loaded.count(POOL_UNKNOWN) == 2


def test_unknown_buffered_steps_are_a_dash() -> None:
    episode = fleet_pb2.EpisodeStatus(
        episode_id="ep-1", phase=fleet_pb2.EPISODE_PHASE_ADMITTED, connected=False
    )

    line = render_status(_status(episodes=[episode])).splitlines()[-1]

    assert "cut off" in line
    assert line.endswith("-")


def test_text_of_a_robot_cannot_command_the_terminal() -> None:
    episode = fleet_pb2.EpisodeStatus(episode_id="ep-1", robot_id="\x1b[2Jr", task="a\nb")

    assert "\x1b" not in render_status(_status(episodes=[episode]))
    assert render_status(_status(episodes=[episode])).endswith("a b")
