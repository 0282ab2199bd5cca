"""One LIBERO-PRO task as a robot: reset, step, look."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from sim.libero import suites
from sim.libero.geometry import SceneGeometry
from sim.libero.gl import GlChoice, check_gl_settings
from sim.libero.grasp import GraspSensor
from sim.libero.placing import Goal
from sim.libero.rendering import Renderer
from sim.libero.rotation import (
    axis_angle_from_quat,
    matrix_from_quat,
    quat_from_matrix,
    yaw_matrix,
)
from sim.libero.simulator import load_simulator

Array = NDArray[np.float64]

#: LIBERO lets objects fall and settle for this many steps after a reset.
NUM_SETTLING_STEPS = 10
#: No motion, gripper open.
IDLE_ACTION = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)
CONTROL_HZ = 20.0
ACTION_DIM = 7
CAMERAS = ("agentview", "robot0_eye_in_hand")
#: Side of the square pictures that LIBERO policies were trained on, pixels.
POLICY_IMAGE_SIZE = 256

# robosuite ends an episode at its own horizon and then refuses to step; agents bring their own
# step budget (3,000 by default), so the horizon only has to be out of the way.
_HORIZON_STEPS = 1_000_000


@dataclass(frozen=True)
class StepResult:
    """What one control step did.

    Attributes:
        success: Whether the task's goal holds after the step, as LIBERO judges it.
        step: Number of steps since the reset, the settling steps not counted.
    """

    success: bool
    step: int


@dataclass(frozen=True)
class ArmState:
    """The arm as LIBERO's own sensors report it.

    Attributes:
        position: End effector, (3,), metres, world frame.
        quat: End effector, (4,), xyzw, world frame.
        gripper_qpos: The two finger joints, (2,), metres; about (0.04, -0.04) open, 0 closed.
        gripper_qvel: Their speeds, (2,), m/s.
        joint_pos: Arm joints, (7,), radians.
    """

    position: Array
    quat: Array
    gripper_qpos: Array
    gripper_qvel: Array
    joint_pos: Array

    @property
    def rotation(self) -> Array:
        """End effector rotation, (3, 3), world frame."""
        return matrix_from_quat(self.quat)

    @property
    def opening_m(self) -> float:
        """Distance between the fingers, metres, 0 to 0.08."""
        return float(self.gripper_qpos[0] - self.gripper_qpos[1])

    def policy_state(self) -> NDArray[np.float32]:
        """LIBERO's eight numbers: position (3), axis-angle (3), both finger joints (2). float32.

        The finger joints have opposite signs and are not added up: their sum is always about 0.
        """
        return np.concatenate(
            [self.position, axis_angle_from_quat(self.quat), self.gripper_qpos]
        ).astype(np.float32)


class LiberoEnv:
    """One task of one suite, started from one of its fixed initial states.

    The same (suite, task, init, seed) and actions give bitwise the same states. No camera is
    rendered by `step`; pictures are made when they are asked for.

    Args:
        suite: One of `sim.libero.suites.SUITES`.
        task_index: 0-9.
        init_index: Index of a fixed initial state, 0-49, or None for a random one from `seed`.
        seed: Seeds what the initial state leaves open (where fixtures stand), and random resets.
        gl: "auto", "egl", "osmesa" or "off"; see `sim.libero.gl`. Checked here, used on the first
            picture.

    Raises:
        InvalidArgumentError: Unknown suite, task, init, or a GL setting that is not allowed.
        MissingExtraError: The simulator is not installed.
    """

    def __init__(
        self,
        suite: str,
        task_index: int,
        init_index: int | None = 0,
        seed: int = 0,
        gl: GlChoice = "auto",
    ) -> None:
        check_gl_settings(gl)
        self.task = suites.find_task(suite, task_index)
        self._init_states = suites.load_init_states(self.task)
        self._init_state = self._checked_init(init_index)
        self.init_index = init_index
        self.seed = _checked_seed(seed)
        self.step_limit = suites.suite_step_limit(suite)
        with _numpy_seeded(self.seed):
            self._env = _build(str(self.task.bddl_path))
        self._renderer = Renderer(self._raw_model, self._raw_data, gl)
        robot = self._env.robots[0]
        base = self._raw_model.body(robot.robot_model.root_body).pos
        self.geometry = SceneGeometry(
            self._raw_model,
            self._raw_data,
            self._root_bodies(),
            tuple(self._site_names()),
            robot_xy=(float(base[0]), float(base[1])),
        )
        fingers = robot.gripper.important_geoms
        self._grasp_sensor = GraspSensor(
            self._raw_model,
            self._raw_data,
            self.geometry,
            self.object_names,
            fingers["left_finger"],
            fingers["right_finger"],
            (*robot.robot_model.contact_geoms, *robot.gripper.contact_geoms),
        )
        self._observation: Mapping[str, Any] = {}
        self._num_steps = 0
        self._closed = False
        self.reset()

    @property
    def language(self) -> str:
        """The instruction in plain words."""
        return self.task.language

    @property
    def control_hz(self) -> float:
        """Control rate, 20 per second."""
        return CONTROL_HZ

    @property
    def num_init_states(self) -> int:
        """How many fixed initial states the task has."""
        return len(self._init_states)

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The predicates that must all hold for success."""
        return tuple(
            Goal(str(state[0]), tuple(str(name) for name in state[1:]))
            for state in self._env.parsed_problem["goal_state"]
        )

    @property
    def object_names(self) -> tuple[str, ...]:
        """Movable objects."""
        return tuple(self._env.objects_dict)

    @property
    def fixture_names(self) -> tuple[str, ...]:
        """Things that stay where they are: tables, cabinets, stoves."""
        return tuple(self._env.fixtures_dict)

    @property
    def objects_of_interest(self) -> tuple[str, ...]:
        """What the task's author marked as relevant."""
        return tuple(self._env.obj_of_interest)

    @property
    def num_steps(self) -> int:
        """Control steps since the reset, the settling steps not counted."""
        return self._num_steps

    def reset(self, init_index: int | None = None, seed: int | None = None) -> StepResult:
        """Back to the start: the initial state, then LIBERO's ten settling steps.

        Args:
            init_index: Change to this fixed initial state from now on.
            seed: Change to this seed from now on.
        """
        self._check_open()
        if init_index is not None:
            self._init_state = self._checked_init(init_index)
            self.init_index = init_index
        if seed is not None:
            self.seed = _checked_seed(seed)
        with _numpy_seeded(self.seed):
            self._reset_simulator()
        if self._init_state is not None:
            self._env.sim.set_state_from_flattened(self._init_state)
            self._env.sim.forward()
            self._env._check_success()
            self._env._post_process()
            self._env._update_observables(force=True)
        return self.settle()

    def settle(self, num_steps: int = NUM_SETTLING_STEPS) -> StepResult:
        """Let things come to rest, then start counting steps from zero."""
        success = False
        for _ in range(num_steps):
            success = self.step(IDLE_ACTION).success
        self._num_steps = 0
        return StepResult(success, 0)

    def step(self, action: ArrayLike) -> StepResult:
        """One control step of 1/20 s.

        Args:
            action: `[dx, dy, dz, droll, dpitch, dyaw, gripper]`, (7,), each in [-1, 1]; +-1 asks
                for 0.05 m or 0.5 rad; gripper +1 closes, -1 opens.

        Raises:
            InvalidArgumentError: Wrong width, NaN, or out of range. Nothing was executed.
        """
        self._check_open()
        values = _checked_action(action)
        self._observation, _, success, _ = self._env.step(values)
        self._num_steps += 1
        return StepResult(bool(success), self._num_steps)

    def success(self) -> bool:
        """Whether the task's goal holds now."""
        self._check_open()
        return bool(self._env._check_success())

    def arm(self) -> ArmState:
        """The arm after the last step."""
        read = {
            key: np.array(self._observation[f"robot0_{key}"], dtype=np.float64)
            for key in ("eef_pos", "eef_quat", "gripper_qpos", "gripper_qvel", "joint_pos")
        }
        return ArmState(
            position=read["eef_pos"],
            quat=read["eef_quat"],
            gripper_qpos=read["gripper_qpos"],
            gripper_qvel=read["gripper_qvel"],
            joint_pos=read["joint_pos"],
        )

    def held_object(self) -> str | None:
        """Name of the object that both fingers touch, or None."""
        return self._grasp_sensor.held_object()

    def grasped_object(self) -> str | None:
        """Name of the object held by both fingers and supported by nothing else, or None."""
        return self._grasp_sensor.grasped_object()

    def clinging_object(self) -> str | None:
        """Name of the object that hangs on one finger with nothing else under it, or None."""
        return self._grasp_sensor.clinging_object()

    def sim_state(self) -> Array:
        """Time, joint positions and velocities, flat, float64. For comparing runs bitwise."""
        return np.asarray(self._env.sim.get_state().flatten(), dtype=np.float64)

    def positions(self) -> Array:
        """Every position of the world: of joints in m or rad, of free objects in m and quaternion
        components. Flat, float64, in MuJoCo's order.
        """
        return np.array(self._raw_data.qpos, dtype=np.float64)

    def displace_object(self, name: str, offset_xy: ArrayLike, yaw_rad: float) -> None:
        """Move a movable object on its support and turn it about the vertical; for training data.

        Args:
            name: A movable object.
            offset_xy: Shift, (2,), metres, world frame.
            yaw_rad: Turn about the world's z axis.
        """
        joint = self._env.objects_dict[name].joints[-1]
        qpos = np.array(self._env.sim.data.get_joint_qpos(joint), dtype=np.float64)
        qpos[:2] += np.asarray(offset_xy, dtype=np.float64)
        turned = yaw_matrix(yaw_rad) @ matrix_from_quat(np.roll(qpos[3:], -1))
        qpos[3:] = np.roll(quat_from_matrix(turned), 1)  # MuJoCo's order is w, x, y, z
        self._env.sim.data.set_joint_qpos(joint, qpos)
        self._env.sim.forward()

    @property
    def renderer_name(self) -> str | None:
        """GL_RENDERER of the library that draws, None while rendering is off. Starts it."""
        self._check_open()
        return self._renderer.name

    def render(
        self, camera: str = "agentview", height: int = 256, width: int = 256
    ) -> NDArray[np.uint8]:
        """A picture for people: uint8 (height, width, 3), RGB, top row first.

        Raises:
            InvalidArgumentError: Unknown camera or a size below 1.
            RenderingOffError: No graphics library; the message says what to do.
        """
        self._check_open()
        return np.ascontiguousarray(self._renderer.raw(camera, height, width)[::-1])

    def policy_image(
        self, camera: str = "agentview", size: int = POLICY_IMAGE_SIZE
    ) -> NDArray[np.uint8]:
        """A picture for policies: uint8 (size, size, 3), in LIBERO's training convention.

        That is the raw buffer (bottom row first) turned by 180 degrees, once. Compared with
        `render` it is mirrored left to right.
        """
        self._check_open()
        return np.ascontiguousarray(self._renderer.raw(camera, size, size)[::-1, ::-1])

    def close(self) -> None:
        """Free the graphics context and the simulator. Can be called again."""
        if not self._closed:
            self._closed = True
            self._renderer.close()
            self._env.close()

    def __enter__(self) -> LiberoEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _raw_model(self) -> Any:
        return self._env.sim.model._model

    @property
    def _raw_data(self) -> Any:
        return self._env.sim.data._data

    def _root_bodies(self) -> dict[str, str]:
        things = {**self._env.objects_dict, **self._env.fixtures_dict}
        names = {self._raw_model.body(i).name for i in range(self._raw_model.nbody)}
        return {n: t.root_body for n, t in things.items() if t.root_body in names}

    def _site_names(self) -> Iterator[str]:
        known = {self._raw_model.site(i).name for i in range(self._raw_model.nsite)}
        return (name for name in self._env.object_sites_dict if name in known)

    def _checked_init(self, init_index: int | None) -> Array | None:
        if init_index is None:
            return None
        return suites.pick_init_state(self._init_states, init_index)

    def _reset_simulator(self) -> None:
        failure = load_simulator().randomization_error
        # The gripper integrates its commands; a soft reset would leave the sum behind.
        gripper = self._env.robots[0].gripper
        gripper.current_action = np.zeros(gripper.dof)
        for _ in range(100):
            try:
                self._env.reset()
                return
            except failure:
                continue
        raise RobotSdkError(
            f"no free place for the objects of {self.task.name!r} in 100 tries",
            hint="use another seed or a fixed initial state",
        )

    def _check_open(self) -> None:
        if self._closed:
            raise RobotSdkError("the environment is closed", hint="make a new LiberoEnv")


def _build(bddl_path: str) -> Any:
    simulator = load_simulator()
    problem = simulator.problem_info(bddl_path)["problem_name"]
    env = simulator.problem_classes[problem](
        bddl_path,
        robots=["Panda"],
        controller_configs=copy.deepcopy(
            simulator.controller_config(default_controller="OSC_POSE")
        ),
        gripper_types="default",
        initialization_noise=None,
        use_camera_obs=False,
        has_renderer=False,
        # Pictures come from sim.libero.rendering, which can say no, time out and clean up.
        has_offscreen_renderer=False,
        control_freq=int(CONTROL_HZ),
        horizon=_HORIZON_STEPS,
        ignore_done=True,
        # A soft reset restores the same state without rebuilding the model (0.03 s, not 3 s).
        hard_reset=False,
    )
    # Object poses are read from the model when they are wanted, not at every physics substep.
    for name, observable in env._observables.items():
        if not name.startswith("robot0_"):
            observable.set_enabled(False)
    return env


def _checked_action(action: ArrayLike) -> Array:
    values = np.asarray(action, dtype=np.float64)
    if values.shape != (ACTION_DIM,):
        raise InvalidArgumentError(
            "wrong shape", field="action", value=values.shape, allowed=[f"({ACTION_DIM},)"]
        )
    if not np.all(np.isfinite(values)) or np.any(np.abs(values) > 1.0 + 1e-6):
        raise InvalidArgumentError(
            "not finite or out of range",
            field="action",
            value=values.tolist(),
            allowed=["seven numbers in [-1, 1]"],
        )
    return values


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise InvalidArgumentError(
            "not a seed", field="seed", value=repr(seed), allowed=["integers 0 to 4294967295"]
        )
    return int(seed)


@contextmanager
def _numpy_seeded(seed: int) -> Iterator[None]:
    """The simulator draws from numpy's global generator: lend it a seeded one, then restore."""
    saved = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(saved)
