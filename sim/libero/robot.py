"""A LIBERO-PRO environment as a Robot for the control loop."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.errors import InvalidArgumentError, nearest
from robot_sdk.observation import PRIVILEGED_PREFIX, Observation
from robot_sdk.robot import Action
from server.policy.flow.features import GRIPPER_QVEL, INPUT_WIDTHS, STATE
from sim.libero.env import ACTION_DIM, CONTROL_HZ, LiberoEnv
from sim.libero.grasp_log import Actor, GraspLog
from sim.libero.policy_inputs import PolicyTask
from sim.libero.servo import GRIPPER_OPEN

EMBODIMENT = "libero-panda"
#: Side of the pictures that policies get, pixels; that of the pi0.5 checkpoints for LIBERO.
POLICY_IMAGE_SIZE = 224
#: Our names of LIBERO's cameras.
CAMERAS = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}

_SENSORS = (STATE, GRIPPER_QVEL, "observation/joint_pos")
_IMAGES = tuple(f"images/{name}" for name in CAMERAS)
#: Ground truth about what the running policy was told to take; only there while a target is set.
_PRIVILEGED = tuple(key for key in INPUT_WIDTHS if key.startswith(PRIVILEGED_PREFIX))


class LiberoRobot:
    """The Panda arm of one environment. Implements `robot_sdk.robot.Robot`.

    Args:
        env: The environment, reset to the episode's start.
        clock: Stamps observations.
        on_step: Called after every control step with the step number; for videos.

    Attributes:
        actor: Who makes the actions at present; the tools set it before they move.
        target: What a policy is to take; None hides the privileged keys.
        success_step: First step after which LIBERO's goal held, None if it never did.
        grasps: Who grasped what.
    """

    def __init__(
        self,
        env: LiberoEnv,
        clock: Clock = SYSTEM_CLOCK,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        self.env = env
        self.actor: Actor = "scripted"
        self.target: PolicyTask | None = None
        self.success_step: int | None = None
        self.grasps = GraspLog()
        self._clock = clock
        self._on_step = on_step
        self._gripper = GRIPPER_OPEN

    @property
    def control_hz(self) -> float:
        """20 per second."""
        return CONTROL_HZ

    @property
    def action_dim(self) -> int:
        """`[dx, dy, dz, droll, dpitch, dyaw, gripper]`."""
        return ACTION_DIM

    @property
    def gripper_command(self) -> float:
        """The last gripper command: -1 opens, +1 closes."""
        return self._gripper

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        """Read what is asked for; only cameras that are asked for are rendered.

        Keys: `observation/state` (8,) float32, `observation/gripper_qvel` (2,) float32 [m/s],
        `observation/joint_pos` (7,) float32 [rad], `images/agentview` and `images/wrist`
        (224, 224, 3) uint8 in LIBERO's training convention, and while a target is set
        `privileged/...` as in `server.policy.flow.features`. None means the sensors.
        """
        wanted = _SENSORS if keys is None else tuple(keys)
        for key in wanted:
            self._check_key(key)
        arm = self.env.arm()
        values: dict[str, NDArray[Any]] = {
            STATE: arm.policy_state(),
            GRIPPER_QVEL: arm.gripper_qvel.astype(np.float32),
            "observation/joint_pos": arm.joint_pos.astype(np.float32),
        }
        if self.target is not None and any(key in _PRIVILEGED for key in wanted):
            values.update(self.target.inputs())
        images = {
            key: self.env.policy_image(CAMERAS[key.split("/")[1]], POLICY_IMAGE_SIZE)
            for key in wanted
            if key in _IMAGES
        }
        return Observation(
            tensors={key: values[key] for key in wanted if key not in _IMAGES},
            images=images,
            captured_s=self._clock.now_s(),
            # The world only changes by steps, so a new step is a new frame.
            frame_ids=dict.fromkeys(images, self.env.num_steps),
        )

    def act(self, action: Action) -> None:
        """One control step of the physics, 1/20 s of simulated time."""
        result = self.env.step(action)
        self._gripper = float(action[-1])
        self.grasps.update(result.step, self.actor, self._gripper, self.env.held_object())
        if result.success and self.success_step is None:
            self.success_step = result.step
        if self._on_step is not None:
            self._on_step(result.step)

    def hold(self) -> None:
        """No motion for one control step; the fingers keep their last command."""
        action = np.zeros(ACTION_DIM, dtype=np.float32)
        action[-1] = self._gripper
        self.act(action)

    def _check_key(self, key: str) -> None:
        known = (*_SENSORS, *_IMAGES, *(_PRIVILEGED if self.target is not None else ()))
        if key in known:
            return
        if key in _PRIVILEGED:
            hint = "set a target first: privileged keys describe what a policy is to take"
        else:
            close = nearest(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else ""
        raise InvalidArgumentError(
            "the robot has no such observation", field=key, allowed=known, hint=hint
        )
