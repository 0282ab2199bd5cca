from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from robot_sdk import telemetry as telemetry_module
from robot_sdk.agent import AgentLimits
from robot_sdk.api.v1 import brain_pb2, episode_pb2
from robot_sdk.client import Client, connect
from robot_sdk.errors import BadModelOutputError, EpisodeEndedError, InvalidArgumentError
from robot_sdk.messages import ToolCall
from robot_sdk.results import Verdict
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.spec import ActionDimension, ObservationKey, PolicySpec
from robot_sdk.testing import FakeDecision, FakePolicyInput, FakeServer, FakeTransport, SimpleRobot
from robot_sdk.tools import ToolRegistry, finish, tool
from robot_sdk.trace.reader import read_folder

SPEC = PolicySpec(
    name="line",
    version="1",
    action_dimensions=(ActionDimension("x", "m", "world", "delta"),),
    control_hz=20.0,
    horizon=10,
    executed_steps=5,
    observation_keys=(ObservationKey("observation/state", "float32", (1,)),),
)
OPTIONS = EpisodeOptions(policies=("line",), pace="lockstep")


class Tools:
    """One tool that runs the policy; `during` is called in each of its ticks."""

    def __init__(self, running: RunningEpisode) -> None:
        self._running = running
        self.during: Callable[[], None] = lambda: None

    @tool
    def go(self, steps: int) -> dict[str, int]:
        """Follow the policy."""

        def stop(_: object) -> None:
            self.during()

        report = self._running.run_policy("line", "go", max_steps=steps, stop_when=stop)
        return {"steps": report.steps}


def brain(*turns: tuple[str, dict[str, object]]) -> Callable[[object], FakeDecision]:
    """One call a turn."""

    def decide(request: brain_pb2.DecideRequest) -> FakeDecision:
        name, arguments = turns[request.turn_index]
        call = ToolCall(f"call-{request.turn_index}", name, json.dumps(arguments))
        return FakeDecision(tool_calls=(call,))

    return decide  # type: ignore[return-value]


GO = ("go", {"steps": 7})
FINISH = ("finish", {"success": True, "summary": "there"})


@contextmanager
def connected(
    server: FakeServer, telemetry: telemetry_module.Telemetry | None = None
) -> Iterator[Client]:
    with connect("fake", transport=FakeTransport(server), telemetry=telemetry) as client:
        yield client


def make_tools(running: RunningEpisode) -> ToolRegistry:
    return ToolRegistry(Tools(running), finish)


def ends_of(server: FakeServer) -> list[episode_pb2.EndEpisode]:
    return [request.end for request in server.run_requests if request.HasField("end")]


def test_an_episode_runs_from_admission_to_end_and_adds_up() -> None:
    server = FakeServer(brain=brain(GO, GO, FINISH), specs=[SPEC])
    robot = SimpleRobot()
    with connected(server) as client:
        result = run_episode(client, robot, make_tools, "go there", OPTIONS)

    assert (result.success, result.reason, result.detail) == (True, "finished", "there")
    assert (result.turns, result.chunks) == (3, 4)
    assert (result.env_steps, result.policy_steps, result.scripted_steps) == (14, 14, 0)
    assert len(robot.actions) == 14
    assert [sample.gap_steps for sample in result.samples] == [None, 7, 7]
    assert [end.outcome for end in ends_of(server)] == [episode_pb2.EPISODE_OUTCOME_SUCCESS]


def test_a14_a_policy_that_is_refused_three_times_is_told_to_the_brain() -> None:
    def policy(_: object) -> NDArray[np.generic]:
        raise BadModelOutputError("policy line returned actions that may not be used")

    server = FakeServer(brain=brain(GO, FINISH), specs=[SPEC], policy=policy)
    with connected(server) as client:
        result = run_episode(client, SimpleRobot(), make_tools, "go there", OPTIONS)

    assert (result.turns, result.policy_steps) == (2, 0)
    (answer,) = server.decide_requests[1].new_messages
    assert answer.is_error
    assert "may not be used" in str(answer)


def test_what_is_no_robot_is_refused_before_the_server_is_asked() -> None:
    class Armless:
        control_hz = 0.0
        action_dim = 1

        def observe(self, keys: object = None) -> None: ...

    server = FakeServer(specs=[SPEC])
    with connected(server) as client, pytest.raises(InvalidArgumentError) as caught:
        run_episode(client, Armless(), make_tools, "go there", OPTIONS)  # type: ignore[arg-type]

    assert not server.run_requests
    for fault in ("Armless", "act()", "hold()", "control_hz is 0.0"):
        assert fault in str(caught.value)
    assert "observe()" not in str(caught.value)


def test_failures_of_a_policy_that_used_up_its_steps_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def policy(request: FakePolicyInput) -> NDArray[np.generic]:
        if request.sequence == 0:
            raise BadModelOutputError("an accident")
        return np.zeros((10, 1), np.float32)

    server = FakeServer(brain=brain(GO, FINISH), specs=[SPEC], policy=policy)
    with connected(server) as client:
        run_episode(client, SimpleRobot(), make_tools, "go there", OPTIONS)

    (record,) = [r for r in caplog.records if r.name == "robot_sdk.running_episode"]
    assert "policy line used up its 7 steps with 2 chunks and 1 failures" in record.getMessage()
    assert record.getMessage().endswith("an accident")


def test_the_judge_counts_more_than_the_brain() -> None:
    server = FakeServer(brain=brain(FINISH), specs=[SPEC])
    with connected(server) as client:
        result = run_episode(
            client,
            SimpleRobot(),
            make_tools,
            "go there",
            OPTIONS,
            judge=lambda _: Verdict(False, "not_there"),
        )

    assert (result.success, result.outcome, result.reason) == (False, "failure", "not_there")
    assert [end.outcome for end in ends_of(server)] == [episode_pb2.EPISODE_OUTCOME_FAILURE]


def test_the_step_budget_ends_the_episode() -> None:
    server = FakeServer(brain=brain(GO, GO, GO, GO), specs=[SPEC])
    options = EpisodeOptions(
        policies=("line",), pace="lockstep", limits=AgentLimits(max_env_steps=10)
    )
    with connected(server) as client:
        result = run_episode(client, SimpleRobot(), make_tools, "go there", options)

    assert (result.outcome, result.reason, result.turns) == ("failure", "max_env_steps", 2)


def test_a_revoked_episode_ends_with_its_reason_and_keeps_what_it_has() -> None:
    server = FakeServer(brain=brain(GO, GO, FINISH), specs=[SPEC])
    robot = SimpleRobot()

    def tools(running: RunningEpisode) -> ToolRegistry:
        made = Tools(running)

        def revoke() -> None:
            if len(robot.actions) == 10:
                (episode,) = server.episodes.active
                server.revoke(episode, EpisodeEndedError("ended by an operator"))

        made.during = revoke
        return ToolRegistry(made, finish)

    with connected(server) as client:
        result = run_episode(client, robot, tools, "go there", OPTIONS)

    assert (result.success, result.outcome, result.reason) == (False, "aborted", "episode_lost")
    assert "operator" in result.detail
    assert result.turns == 2
    assert result.policy_steps >= 10


def test_an_exception_leaves_the_program_and_tells_the_server() -> None:
    server = FakeServer(brain=brain(GO), specs=[SPEC])

    def tools(running: RunningEpisode) -> ToolRegistry:
        raise KeyboardInterrupt

    with connected(server) as client, pytest.raises(KeyboardInterrupt):
        run_episode(client, SimpleRobot(), tools, "go there", OPTIONS)

    assert [end.outcome for end in ends_of(server)] == [episode_pb2.EPISODE_OUTCOME_ABORTED]


def test_spans_are_nested_as_documented(tmp_path: Path) -> None:
    server = FakeServer(brain=brain(GO, FINISH), specs=[SPEC])
    telemetry = telemetry_module.start("robot-0", run_folder=tmp_path)
    with connected(server, telemetry) as client:
        run_episode(client, SimpleRobot(), make_tools, "go there", OPTIONS)
    telemetry.shutdown()

    spans = read_folder(tmp_path).spans
    names = {span.span_id: span.name for span in spans}
    nested = {(names.get(span.parent_id or "", ""), span.name) for span in spans}
    assert nested >= {
        ("", "episode"),
        ("episode", "turn"),
        ("turn", "brain.decide"),
        ("turn", "tool.go"),
        ("turn", "tool.finish"),
        ("tool.go", "policy.chunk"),
    }
    second = [span for span in spans if span.name == "brain.decide"][1]
    assert second.attributes["robot.gap.env_steps"] == 7
    assert second.attributes["robot.gap.env_s"] == pytest.approx(0.35)
