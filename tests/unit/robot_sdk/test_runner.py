from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from robot_sdk import telemetry as telemetry_module
from robot_sdk.agent import AgentLimits
from robot_sdk.api.v1 import brain_pb2, episode_pb2
from robot_sdk.client import Client, connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import BadModelOutputError, EpisodeEndedError, InvalidArgumentError
from robot_sdk.loop_state import LoopState
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


REALTIME = replace(OPTIONS, pace="realtime")


class PacedTools:
    """Waits for the server's advice, then runs the policy; remembers the loop's counters."""

    def __init__(self, server: FakeServer, running: RunningEpisode, advice: tuple) -> None:
        self._server, self._running, self._advice = server, running, advice
        self.states: list[LoopState] = []

    @tool
    def go(self, steps: int) -> str:
        """Follow the policy."""
        if self._advice:
            self._server.advise_pace(*self._advice)
            until = SYSTEM_CLOCK.now_s() + 10.0
            while self._running.episode.pacing is None and SYSTEM_CLOCK.now_s() < until:
                SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.002)
        self._running.run_policy("line", "go", max_steps=steps)
        self.states.append(self._running.state)
        return "done"


def paced_run(server: FakeServer, advice: tuple, robot: SimpleRobot) -> list[LoopState]:
    made: list[PacedTools] = []

    def tools(running: RunningEpisode) -> ToolRegistry:
        made.append(PacedTools(server, running, advice))
        return ToolRegistry(made[0], finish)

    with connected(server) as client:
        run_episode(client, robot, tools, "go there", REALTIME)
    return made[0].states


def test_wish_of_the_opened_stream_sets_the_grid_before_the_first_tick() -> None:
    # Rates this slow tell a shift from the unrest of a busy machine: a period is half a second.
    server = FakeServer(
        brain=brain(("go", {"steps": 2}), FINISH), specs=[SPEC], first_observation_in_s=0.25
    )
    (state,) = paced_run(server, (), SimpleRobot(control_hz=2.0))
    assert state.num_grid_shifts == 1
    assert 0.0 < state.grid_shift_s < 0.5
    assert state.overrun_ticks == 0


def test_pacing_advice_of_the_episode_sets_the_grid_where_the_stream_says_nothing() -> None:
    server = FakeServer(brain=brain(("go", {"steps": 2}), FINISH), specs=[SPEC])
    (state,) = paced_run(server, (0.25,), SimpleRobot(control_hz=2.0))
    assert state.num_grid_shifts == 1
    assert 0.0 < state.grid_shift_s < 0.5


def test_rate_that_the_server_cannot_carry_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns = brain(("go", {"steps": 2}), ("go", {"steps": 2}), FINISH)
    server = FakeServer(brain=turns, specs=[SPEC])
    paced_run(server, (0.0, 12.5), SimpleRobot())
    (line,) = [r.getMessage() for r in caplog.records if "can carry" in r.getMessage()]
    assert "12.5 Hz" in line
    assert "20 Hz" in line


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
