"""The tools on a real scene, without server: an expert stands for the policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="the simulator is not installed")

from robot_sdk.action_source import Act, ActionSource, Done, Hold, Tick
from robot_sdk.loop_state import SourceReport
from robot_sdk.policy_source import PolicyResult
from robot_sdk.robot import Robot
from robot_sdk.tools import ToolRegistry, ToolResult
from server.policy.flow.features import INPUT_WIDTHS
from sim.libero.env import LiberoEnv
from sim.libero.judge import judge, settle_and_judge
from sim.libero.robot import LiberoRobot
from sim.libero.scripted_demo import ExpertView, ScriptedExpert
from sim.libero.tools import LiberoTools

pytestmark = pytest.mark.sim

PUDDING = "chocolate_pudding_1"
T = TypeVar("T")


class DirectBody:
    """Runs sources in the caller's thread, in lockstep."""

    def __init__(self, robot: LiberoRobot) -> None:
        self.robot = robot
        self.steps = 0
        self.budget = 3000

    def run(self, source: ActionSource) -> SourceReport:
        source.start(self._tick())
        first = self.steps
        while True:
            command = source.next(self._tick())
            if isinstance(command, Done):
                break
            if isinstance(command, Act):
                self.robot.act(command.action)
            elif isinstance(command, Hold):
                self.robot.hold()
            self.steps += 1
        source.stop()
        return self._report(source.name, command.result, first)

    def run_policy(
        self,
        policy: str,
        instruction: str,
        *,
        observation_keys: tuple[str, ...],
        max_steps: int,
        stop_when: Callable[[Tick], object | None],
        name: str,
    ) -> SourceReport:
        assert policy == "flow-libero"
        assert instruction
        expert, first = ScriptedExpert(), self.steps
        value = None
        while self.steps - first < max_steps and value is None:
            tick = self._tick()
            value = stop_when(tick)
            if value is None:
                assert set(tick.observe(observation_keys).tensors) == set(INPUT_WIDTHS)
                self.robot.act(expert.act(self._view()))
                self.steps += 1
        ended_by = "max_steps" if value is None else "stop_when"
        result = PolicyResult(ended_by, value, self.steps - first, 1, 0, None)
        return self._report(name, result, first)

    def call(self, function: Callable[[Robot], T]) -> T:
        return function(self.robot)

    def remaining_steps(self) -> int:
        return self.budget - self.steps

    def _tick(self) -> Tick:
        return Tick(self.steps, 0.0, "lockstep", 20.0, self.robot.observe)

    def _view(self) -> ExpertView:
        task, env = self.robot.target, self.robot.env
        assert task is not None
        return ExpertView(
            arm=env.arm(),
            grasp=task.grasp.frame(),
            held=env.held_object() == task.grasp.name,
            place_position=task.place_position,
            approach_height_m=task.approach_height_m,
            carry_height_m=task.carry_height_m,
            pick_only=task.place_position[2] == task.carry_height_m,
        )

    def _report(self, name: str, result: object, first: int) -> SourceReport:
        steps = self.steps - first
        return SourceReport(name, "scripted", result, steps, steps, 0, 0, 0, 0, first, 0.0, 0.0)


@pytest.fixture
def body(pudding_env: LiberoEnv) -> DirectBody:
    pudding_env.reset()
    return DirectBody(LiberoRobot(pudding_env))


def call(body: DirectBody, name: str, **arguments: object) -> ToolResult:
    return ToolRegistry(LiberoTools(body.robot, body)).call(name, json.dumps(arguments))


def data(body: DirectBody, name: str, **arguments: object) -> dict[str, Any]:
    result = call(body, name, **arguments)
    assert not result.is_error, result.text
    return json.loads(result.text)


def test_scene_and_localise_agree_on_what_is_where(body: DirectBody) -> None:
    scene = data(body, "scene")

    pudding = next(thing for thing in scene["objects"] if thing["name"] == PUDDING)
    assert pudding == data(body, "localise", object=PUDDING)
    assert "basket_1_contain_region" in [place["name"] for place in scene["places"]]
    assert not any("floor" in place["name"] for place in scene["places"])
    assert scene["held"] is None
    assert data(body, "localise", object="gripper") == scene["gripper"]


@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("move_to", {"x": 2.0, "y": 0, "z": 0.3}, "-0.6 to 0.6 m"),
        ("move_to", {"x": 0, "y": 0, "z": -0.1}, "0 to 1.6 m"),
        ("move_to", {"x": 0, "y": 0, "z": 0.3, "speed": 0}, "0.05 to 1 m/s"),
        ("rotate", {"yaw": 4.0}, "rad"),
        ("gripper", {"command": "half"}, '"open" | "close"'),
        ("look", {"camera": "roof"}, '"agentview" | "wrist"'),
        ("localise", {"object": "puddin"}, PUDDING),
        ("policy_pick", {"object": "floor"}, PUDDING),
        ("policy_skill", {"instruction": "dance"}, "put OBJECT in PLACE"),
        ("policy_skill", {"instruction": "put x", "max_steps": 601}, "1 to 600"),
    ],
)
def test_wrong_arguments_move_nothing_and_say_what_is_allowed(
    body: DirectBody, name: str, arguments: dict[str, object], allowed: str
) -> None:
    before = body.robot.env.sim_state()

    result = call(body, name, **arguments)

    assert result.is_error
    assert allowed in result.text
    assert np.array_equal(before, body.robot.env.sim_state())


def test_move_to_arrives_and_reports_where_it_is(body: DirectBody) -> None:
    result = data(body, "move_to", x=0.0, y=0.1, z=0.25)

    assert result["reached"]
    assert result["position"] == pytest.approx([0.0, 0.1, 0.25], abs=0.015)


def test_motions_stay_within_the_step_budget(body: DirectBody) -> None:
    body.budget = 3

    result = data(body, "move_to", x=0.2, y=0.3, z=0.4)

    assert (result["reached"], result["reason"], result["steps"]) == (False, "step_limit", 3)


def test_look_without_pictures_says_what_to_use_instead(body: DirectBody) -> None:
    result = call(body, "look")

    assert result.is_error
    assert "localise" in result.text


def test_policy_pick_ends_when_the_simulator_says_held_and_lifted(body: DirectBody) -> None:
    before = data(body, "localise", object=PUDDING)["position"][2]

    result = data(body, "policy_pick", object=PUDDING)

    assert (result["grasped"], result["held"], result["reason"]) == (True, PUDDING, "lifted")
    assert data(body, "localise", object=PUDDING)["position"][2] >= before + 0.04
    assert body.robot.env.grasped_object() == PUDDING
    assert body.robot.target is None
    grasp = body.robot.grasps.last(PUDDING)
    assert grasp is not None
    assert grasp.actor == "policy"


def test_policy_skill_takes_an_object_to_its_place_and_that_is_a_success(body: DirectBody) -> None:
    result = data(body, "policy_skill", instruction=f"put {PUDDING} in basket_1")

    assert result["done"], result
    assert settle_and_judge(body.robot).success


def test_a_goal_reached_by_a_scripted_grasp_is_no_success(body: DirectBody) -> None:
    data(body, "policy_skill", instruction=f"put {PUDDING} in basket_1")
    body.robot.grasps.update(999, "scripted", -1.0, None)
    body.robot.grasps.update(1000, "scripted", 1.0, PUDDING)

    verdict = judge(body.robot)

    assert (verdict.success, verdict.reason) == (False, "grasp_not_by_policy")


def test_an_untouched_scene_is_no_success(body: DirectBody) -> None:
    verdict = settle_and_judge(body.robot)

    assert (verdict.success, verdict.reason) == (False, "goal_not_reached")
