"""A policy that is slow, stalls, or answers nonsense, in whole episodes."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from robot_sdk.client import connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.observation import Observation
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.tools import ToolRegistry, finish
from tests.integration.end_to_end.conftest import Start
from tests.integration.end_to_end.harness import (
    FINISH,
    EpisodeThread,
    LoggingRobot,
    Tools,
    config,
    run_one,
    sleep,
)


def assert_no_burst(robot: LoggingRobot) -> None:
    """At most one command a tick: over any 10 commands at least 8 periods have passed."""
    times = robot.commanded_s
    ten = [b - a for a, b in zip(times, times[10:], strict=False)]
    assert min(ten) > 8 * 0.05


def test_a4_b4_control_resumes_after_one_slow_inference(start_server: Start) -> None:
    server = start_server(
        config(
            [("drive", {"steps": 160}), FINISH],
            policy="tests.fakes.scripted:HiccupPolicy",
            policy_options={"at": 3, "slow_s": 4.0, "delay_s": 0.1},
        )
    )

    result, robot = run_one(server)

    assert result.success
    assert (result.turns, result.invalid_calls) == (2, 0)
    assert result.starved_ticks >= 40  # 80 ticks of 4 s, less what was in the buffer
    steps = [item.step for item in robot.executed]
    pause = max(range(1, len(steps)), key=lambda i: steps[i] - steps[i - 1])
    assert steps[pause] - steps[pause - 1] > 40
    assert len(steps) - pause > 20, "it acted again after the pause"
    robot.assert_every_action_was_of_its_step()
    assert_no_burst(robot)


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
def test_b2_every_action_is_executed_in_the_step_it_was_made_for(
    start_server: Start, delay_s: float
) -> None:
    server = start_server(
        config(
            [("drive", {"steps": 60}), ("drive", {"steps": 20}), FINISH],
            policy_options={"delay_s": delay_s},
        )
    )

    result, robot = run_one(server)

    assert result.success
    assert result.acted_steps == len(robot.executed) > 0
    robot.assert_every_action_was_of_its_step()


def test_b3_the_next_chunk_is_there_before_the_last_one_is_used_up(start_server: Start) -> None:
    server = start_server(
        config([("drive", {"steps": 120}), FINISH], policy_options={"delay_s": 0.3, "horizon": 50})
    )

    result, robot = run_one(server)

    assert result.success
    assert result.chunks >= 3
    assert result.starved_ticks == 0  # 25 rows are left when the next 0.3 s begin
    robot.assert_every_action_was_of_its_step()


def test_b1_nothing_of_an_earlier_instruction_or_episode_is_executed(start_server: Start) -> None:
    calls = [
        ("drive", {"steps": 10, "instruction": "a"}),
        ("drive", {"steps": 10, "instruction": "bb"}),
        FINISH,
    ]
    server = start_server(
        config(
            calls,
            policy="tests.fakes.scripted:InstructionPolicy",
            policy_options={"horizon": 50, "delay_s": 0.05},
        )
    )
    with connect(server.address) as client:
        for _ in range(2):
            robot = LoggingRobot()
            assert EpisodeThread(client, robot).result().success

            values = [item.value for item in robot.executed]
            assert values == sorted(values)
            assert set(values) == {1.0, 2.0}


@pytest.mark.faultinjection
def test_b6_after_the_server_stood_still_for_three_seconds_only_current_rows_are_executed(
    start_server: Start,
) -> None:
    server = start_server(
        config([("drive", {"steps": 140}), FINISH], policy_options={"horizon": 30})
    )
    with connect(server.address) as client:
        episode = EpisodeThread(client, LoggingRobot())
        episode.wait_for(lambda state: state.acted_steps >= 20)
        server.signal(signal.SIGSTOP)
        stopped_s = SYSTEM_CLOCK.now_s()
        try:
            sleep(3.0)
        finally:
            server.signal(signal.SIGCONT)
        resumed_s = SYSTEM_CLOCK.now_s()

        result = episode.result()

    robot = episode.robot
    assert result.success
    assert result.starved_ticks > 0
    robot.assert_every_action_was_of_its_step()
    assert_no_burst(robot)
    assert any(item.at_s > resumed_s for item in robot.executed)
    in_vain = [i for i in robot.executed if stopped_s + 2.0 < i.at_s < resumed_s]
    assert in_vain == [], "30 rows last 1.5 s"


@pytest.mark.parametrize("kind", ["empty", "ragged", "nan"])
def test_a14_a_chunk_that_may_not_be_executed_is_told_to_the_brain_and_nothing_moves(
    start_server: Start, kind: str
) -> None:
    server = start_server(
        config(
            [("drive", {"steps": 600}), ("finish", {"success": False})],
            policy="tests.fakes.scripted:BadChunkPolicy",
            policy_options={"kind": kind},
        )
    )

    result, robot = run_one(server)

    assert robot.actions == []
    assert robot.num_holds > 0
    assert (result.outcome, result.reason, result.turns) == ("failure", "gave_up", 2)
    assert result.chunks == 0
    assert result.policy_steps < 600, "given up after three, not held to the end"


class FrozenCamera(LoggingRobot):
    """The camera goes on delivering its 20th picture, with fresh time stamps."""

    def observe(self, keys=None) -> Observation:  # type: ignore[no-untyped-def]
        seen = super().observe(None)
        number = min(self.state.step, 20 if self.state.step < 60 else self.state.step)
        picture = np.full((8, 8, 3), number % 256, np.uint8)
        return Observation(
            tensors=seen.tensors,
            images={"images/agentview": picture, "images/wrist": picture},
            captured_s=SYSTEM_CLOCK.now_s(),
            frame_ids={"images/agentview": number, "images/wrist": self.state.step},
        )


def test_a16_no_chunk_is_asked_for_while_a_camera_stands_still(start_server: Start) -> None:
    server = start_server(
        config([("drive", {"steps": 100}), FINISH], policy_options={"image_px": 8})
    )
    robot = FrozenCamera()
    with connect(server.address) as client:
        result = run_episode(
            client,
            robot,
            lambda running: ToolRegistry(Tools(running), finish),
            "go somewhere",
            EpisodeOptions(policies=("fake",)),
            on_state=robot.on_state,
        )

    assert result.success
    steps = [item.step for item in robot.executed]
    # Stale after 5 steps of standing still; rows asked for before that may last to step 35.
    assert not [step for step in steps if 36 <= step < 60]
    assert [step for step in steps if step < 30]
    assert [step for step in steps if step >= 60]
    assert result.starved_ticks >= 20
    robot.assert_every_action_was_of_its_step()
