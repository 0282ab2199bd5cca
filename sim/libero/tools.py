"""The robot-side tools of a LIBERO episode.

The brain sees names, numbers and pictures; it composes an episode from them: look or localise, let
the policy make the grasp, carry with `move_to`, open the gripper, check, finish. Every tool returns
JSON, and what went wrong is in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from robot_sdk.action_source import (
    Act,
    ActionSource,
    Command,
    Done,
    Hold,
    HoldReason,
    Tick,
)
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.loop_state import SourceReport
from robot_sdk.messages import ImagePart
from robot_sdk.policy_source import PolicyResult
from robot_sdk.robot import Robot
from robot_sdk.tools import Finish, Range, ToolResult, to_json, tool
from server.policy.flow.features import INPUT_WIDTHS
from sim.libero import scene
from sim.libero.env import LiberoEnv
from sim.libero.gl import RenderingOffError
from sim.libero.motion import (
    MAX_SPEED_M_S,
    GripperMotion,
    Motion,
    MotionResult,
    MoveMotion,
    ShakeMotion,
    rotate_motion,
)
from sim.libero.placing import place_target
from sim.libero.policy_inputs import PolicyTask
from sim.libero.robot import CAMERAS, LiberoRobot
from sim.libero.servo import GRIPPER_CLOSE, GRIPPER_OPEN

#: The stand-in policy; see its PolicySpec for what it stands for.
POLICY = "flow-libero"
#: Budget of one pick. Scripted picks of these objects take 40 to 70 steps.
PICK_MAX_STEPS = 200
#: A pick has succeeded when the object hangs free this far above where it lay, metres, ...
PICK_LIFT_M = 0.04
#: ... for so many steps in a row: a slipping object is in the air for a moment, too.
PICK_HELD_STEPS = 5
#: A skill is over when the policy has let go of the object for so many steps.
RELEASED_STEPS = 10
#: An object that moves less than this in one step is at rest, metres.
REST_M = 0.001
#: Longest wait for the scene to come to rest after a motion, steps (1 s).
MAX_SETTLING_STEPS = 20
#: Pictures for the brain, pixels.
LOOK_SIZE = 256

T = TypeVar("T")

X = Annotated[float, Range(-0.6, 0.6, unit="m")]
Y = Annotated[float, Range(-0.6, 0.6, unit="m")]
Z = Annotated[float, Range(0.0, 1.6, unit="m")]
Speed = Annotated[float, Range(0.05, MAX_SPEED_M_S, unit="m/s")]
Yaw = Annotated[float, Range(-math.pi, math.pi, unit="rad")]
Name = Annotated[str, Range(1, 80)]


class Body(Protocol):
    """What the tools need of the running episode."""

    def run(self, source: ActionSource) -> SourceReport:
        """Run an action source on the control loop to its end."""

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
        """Run a policy on the control loop until `stop_when` says something or steps run out."""

    def call(self, function: Callable[[Robot], T]) -> T:
        """Run a function on the control thread, between two ticks."""

    def remaining_steps(self) -> int:
        """What is left of the episode's step budget."""


class LiberoTools:
    """The tools. Their methods run on the agent's thread; everything that touches the simulator
    runs on the control thread.

    Args:
        robot: The robot that the control loop drives.
        body: The running episode.
        with_images: Whether `look` may render.
    """

    def __init__(self, robot: LiberoRobot, body: Body, *, with_images: bool = False) -> None:
        self._robot = robot
        self._body = body
        self._with_images = with_images

    @tool
    def look(self, camera: Literal["agentview", "wrist"] = "agentview") -> ToolResult:
        """Take a picture.

        Args:
            camera: "agentview" shows the whole scene, "wrist" what is below the gripper.
        """
        if not self._with_images:
            return _error(
                "camera pictures are switched off in this run; use scene and localise instead"
            )
        try:
            image = self._body.call(lambda _: self.picture(camera))
        except RenderingOffError as error:
            return _error(str(error))
        return ToolResult(to_json({"camera": camera}), (image,))

    @tool
    def scene(self) -> ToolResult:
        """List everything in the scene, with positions: objects that can be taken, places to put
        them, and the gripper.
        """
        return _json(self._body.call(lambda _: self._scene()))

    @tool
    def localise(self, object: Name) -> ToolResult:  # noqa: A002  # the name is the brain's
        """Find one object, place or the gripper.

        Args:
            object: A name from scene, or "gripper".
        """
        return _json(self._body.call(lambda _: scene.locate(self._env, object)))

    @tool
    def move_to(self, x: X, y: Y, z: Z, speed: Speed = MAX_SPEED_M_S) -> ToolResult:
        """Move the gripper in a straight line. The fingers keep what they hold.

        Args:
            x: Forward from the robot.
            y: To the robot's left.
            z: Up.
            speed: Largest speed along each axis.
        """
        target = np.array([x, y, z])
        return self._run_motion(
            "move_to",
            lambda: MoveMotion(
                target,
                yaw_rad=None,
                gripper=self._robot.gripper_command,
                speed_m_s=speed,
                max_steps=self._budget(200),
            ),
        )

    @tool
    def rotate(self, yaw: Yaw) -> ToolResult:
        """Turn the gripper, pointing down, in place.

        Args:
            yaw: About z; at 0 the fingers open along y.
        """
        return self._run_motion(
            "rotate",
            lambda: rotate_motion(
                self._env.arm(), yaw, self._robot.gripper_command, self._budget(200)
            ),
        )

    @tool
    def gripper(self, command: Literal["open", "close"]) -> ToolResult:
        """Open or close the fingers. What clings to an open finger is shaken off."""
        value = GRIPPER_OPEN if command == "open" else GRIPPER_CLOSE
        result = self._run_motion("gripper", lambda: GripperMotion(value))
        if command == "open" and self._body.call(lambda _: self._is_clinging()):
            return self._run_motion("gripper", lambda: ShakeMotion(self._is_clinging))
        return result

    @tool
    def policy_pick(self, object: Name) -> ToolResult:  # noqa: A002  # the name is the brain's
        """Let the learned policy take an object and lift it.

        Args:
            object: A movable object's name from scene.
        """
        self._check_movable(object)
        before = self._body.call(lambda _: scene.locate(self._env, object))
        ended = _HeldFor(self._env, object, before.position[2] + PICK_LIFT_M)
        report = self._run_policy(
            "policy_pick",
            f"pick up the {scene.words_of(object)}",
            lambda: PolicyTask(self._env, object, None),
            PICK_MAX_STEPS,
            ended,
        )
        held = self._body.call(lambda _: self._env.held_object())
        ended_by = _reason(report)
        grasped = ended_by == "lifted" and held == object
        return _json({"grasped": grasped, "held": held, "steps": report.steps, "reason": ended_by})

    @tool
    def policy_skill(
        self,
        instruction: Annotated[str, Range(1, 300)],
        max_steps: Annotated[int, Range(1, 600)] = 300,
    ) -> ToolResult:
        """Let the learned policy follow an instruction: take one object and put it somewhere.

        Args:
            instruction: Names the object and then where to put it "in" or "on", with names from
                scene, for example "put milk_1 in basket_1".
            max_steps: Give up after this many control steps.
        """
        name, relation, destination = self._body.call(lambda _: self._parse(instruction))
        report = self._run_policy(
            "policy_skill",
            instruction,
            lambda: PolicyTask(
                self._env, name, place_target(self._env.geometry, relation, destination)
            ),
            max_steps,
            _Released(self._env, self._robot, name),
        )
        held = self._body.call(lambda _: self._env.held_object())
        ended_by = _reason(report)
        return _json(
            {
                "done": ended_by == "released",
                "held": held,
                "steps": report.steps,
                "reason": ended_by,
            }
        )

    @tool
    def finish(self, success: bool, summary: Annotated[str, Range(high=500)] = "") -> ToolResult:
        """End the episode. Call it when the task is done, or when it cannot be done.

        Args:
            success: Whether the task is done.
            summary: What was done, or why it could not be done, in one sentence.
        """
        return ToolResult("the episode ends", finish=Finish(success, summary))

    def picture(self, camera: str) -> ImagePart:
        """A picture for the brain, upright. Control thread only."""
        return ImagePart(self._env.render(CAMERAS[camera], LOOK_SIZE, LOOK_SIZE), camera)

    @property
    def _env(self) -> LiberoEnv:
        return self._robot.env

    def _scene(self) -> dict[str, Any]:
        env = self._env
        return {
            "objects": [scene.locate(env, name) for name in scene.object_names(env)],
            "places": [scene.locate(env, name) for name in scene.place_names(env)],
            "gripper": scene.locate_gripper(env.arm()),
            "held": env.held_object(),
        }

    def _is_clinging(self) -> bool:
        return self._env.clinging_object() is not None

    def _budget(self, wanted: int) -> int:
        return max(1, min(wanted, self._body.remaining_steps()))

    def _run_motion(self, name: str, make: Callable[[], Motion]) -> ToolResult:
        report = self._body.run(MotionSource(name, self._robot, make))
        result = report.result
        if not isinstance(result, MotionResult):
            return _error(f"{name} was broken off after {report.steps} steps")
        arm, held = self._body.call(lambda _: (self._env.arm(), self._env.held_object()))
        here = scene.locate_gripper(arm)
        return _json(
            {
                "reached": result.reached,
                "reason": result.reason,
                "steps": result.steps,
                "position": here.position,
                "yaw": here.yaw,
                "opening": here.size[0],
                "held": held,
            }
        )

    def _run_policy(
        self,
        name: str,
        instruction: str,
        make_task: Callable[[], PolicyTask],
        max_steps: int,
        stop_when: Callable[[Tick], object | None],
    ) -> SourceReport:
        def begin(_: Robot) -> None:
            self._robot.target = make_task()
            self._robot.actor = "policy"

        def end(_: Robot) -> None:
            self._robot.target = None
            self._robot.actor = "scripted"

        self._body.call(begin)
        try:
            return self._body.run_policy(
                POLICY,
                instruction,
                observation_keys=tuple(INPUT_WIDTHS),
                max_steps=self._budget(max_steps),
                stop_when=stop_when,
                name=name,
            )
        finally:
            self._body.call(end)

    def _check_movable(self, name: str) -> None:
        names = scene.object_names(self._env)
        if name not in names:
            raise InvalidArgumentError(
                "not an object that can be taken", field="object", value=repr(name), allowed=names
            )

    def _parse(self, instruction: str) -> tuple[str, str, str]:
        """Object, "in" or "on", destination."""
        env = self._env
        names = (*scene.object_names(env), *scene.place_names(env))
        found = scene.mentioned(instruction, names)
        words = f" {instruction.lower()} "
        relation = next((word for word in ("in", "on") if f" {word} " in words), "")
        if len(found) != 2 or found[0] not in scene.object_names(env) or not relation:
            raise InvalidArgumentError(
                f"the policy {POLICY} takes one object and puts it in or on one other",
                field="instruction",
                value=repr(instruction),
                allowed=["put OBJECT in PLACE", "put OBJECT on PLACE"],
                hint=f"names are {', '.join(names)}",
            )
        return found[0], relation, found[1]


@dataclass
class MotionSource:
    """A scripted motion as an action source. `make` runs on the control thread, at its start.

    After the motion the robot holds until nothing moves that it does not hold: what was let go has
    fallen when the brain looks next, also in lockstep, where the world stands still meanwhile.
    """

    name: str
    robot: LiberoRobot
    make: Callable[[], Motion]
    kind: Literal["scripted"] = "scripted"
    _motion: Motion | None = None
    _result: MotionResult | None = None
    _settled_steps: int = 0
    _places: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def start(self, tick: Tick) -> None:
        """Plan from where the arm is now."""
        self.robot.actor = "scripted"
        self._motion = self.make()

    def next(self, tick: Tick) -> Command:
        """The motion's next action, then holds until the scene is at rest, then its result."""
        if self._result is None:
            assert self._motion is not None  # the control loop calls start first
            step: NDArray[np.float32] | MotionResult = self._motion.step(self.robot.env.arm())
            if not isinstance(step, MotionResult):
                self._places = self._free_objects()
                return Act(step)
            self._result = step
        if self._settled_steps >= MAX_SETTLING_STEPS or not self._something_moved():
            return Done(self._result)
        self._settled_steps += 1
        return Hold(HoldReason.SETTLING)

    def wait(self, timeout_s: float) -> None:
        """Has an action or a reason to stand still in every tick, so there is nothing to await."""

    def stop(self) -> None:
        """Nothing to free."""

    def _something_moved(self) -> bool:
        before, self._places = self._places, self._free_objects()
        return any(
            float(np.linalg.norm(place - before[name])) > REST_M
            for name, place in self._places.items()
            if name in before
        )

    def _free_objects(self) -> dict[str, NDArray[np.float64]]:
        env = self.robot.env
        held = env.held_object()
        return {name: env.geometry.pose(name).position for name in env.object_names if name != held}


class _HeldFor:
    """Ends a pick: the object hangs free, high enough, long enough."""

    def __init__(self, env: LiberoEnv, name: str, height_m: float) -> None:
        self._env = env
        self._name = name
        self._height_m = height_m
        self._steps = 0

    def __call__(self, tick: Tick) -> str | None:
        free = self._env.grasped_object() == self._name
        lifted = free and self._env.geometry.extent(self._name).center[2] >= self._height_m
        self._steps = self._steps + 1 if lifted else 0
        return "lifted" if self._steps >= PICK_HELD_STEPS else None


class _Released:
    """Ends a skill: the object was held, and the fingers have been open since."""

    def __init__(self, env: LiberoEnv, robot: LiberoRobot, name: str) -> None:
        self._env = env
        self._robot = robot
        self._name = name
        self._was_lifted = False
        self._steps = 0

    def __call__(self, tick: Tick) -> str | None:
        self._was_lifted = self._was_lifted or self._env.grasped_object() == self._name
        opened = self._robot.gripper_command < 0.0
        free = self._was_lifted and opened and self._env.held_object() is None
        self._steps = self._steps + 1 if free else 0
        return "released" if self._steps >= RELEASED_STEPS else None


def _reason(report: SourceReport) -> str:
    """Why a policy run ended: the word of its stop condition, or "step_limit"."""
    result = report.result
    if isinstance(result, PolicyResult) and result.ended_by == "stop_when":
        return str(result.value)
    return "step_limit"


def _json(value: object) -> ToolResult:
    return ToolResult(to_json(value))


def _error(text: str) -> ToolResult:
    return ToolResult(text, is_error=True)
