"""Scripted motions of the arm, as small state machines of values: arm state in, action out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.libero.env import ArmState
from sim.libero.rotation import gripper_rotation
from sim.libero.servo import (
    GRIPPER_CLOSE,
    GRIPPER_OPEN,
    POSITION_SCALE_M,
    PoseError,
    ServoLimits,
    pose_error,
    servo_action,
)

Array = NDArray[np.float64]
Action = NDArray[np.float32]

#: An end effector nearer than this to its target has arrived.
ARRIVED_M = 0.010
ARRIVED_RAD = 0.05
#: The last millimetres of a fast approach still move the arm; so many steps must agree.
_SETTLED_STEPS = 2
#: A motion that came no nearer by this much within this many steps is blocked.
_PROGRESS_M = 0.002
_PROGRESS_RAD = 0.01
_BLOCKED_STEPS = 15
#: Full speed of a position action of 1: 0.05 m a step at 20 Hz.
MAX_SPEED_M_S = POSITION_SCALE_M * 20.0
#: Fingers this far apart are open, metres; 0.08 is the most. Nearer than this an object may lean on
#: one finger and stay up.
_OPEN_M = 0.077
#: The gripper ramps its command, so the fingers start up to eight steps late.
_MIN_CLOSE_STEPS = 10
_MAX_GRIPPER_STEPS = 25
_STILL_M_S = 0.01
#: Shaking tilts the hand to and fro: so many steps each way, at most so many in all.
_SHAKE_HALF_PERIOD_STEPS = 5
_MAX_SHAKE_STEPS = 40


@dataclass(frozen=True)
class MotionResult:
    """How a motion ended.

    Attributes:
        reached: It arrived.
        reason: "reached", "blocked" (no progress) or "step_limit".
        steps: Control steps it took.
        error: What was left to go; None for the gripper.
    """

    reached: bool
    reason: str
    steps: int
    error: PoseError | None = None


class Motion(Protocol):
    """Call once per control step until it returns a result."""

    def step(self, arm: ArmState) -> Action | MotionResult:
        """The action for this step, or the end."""


@dataclass
class MoveMotion:
    """Straight towards a pose, the fingers keep their command.

    Args:
        position: Target of the end effector, (3,), metres, world frame.
        yaw_rad: Yaw of the gripper, which points down; None keeps the yaw at the start. The hand
            is straightened on the way: keeping its tilt would add up from motion to motion.
        gripper: Command that the fingers keep.
        speed_m_s: Largest speed of each axis.
        max_steps: Give up after this many steps.
    """

    position: Array
    yaw_rad: float | None
    gripper: float
    speed_m_s: float = MAX_SPEED_M_S
    max_steps: int = 200
    _steps: int = field(default=0, init=False)
    _settled: int = field(default=0, init=False)
    _best: PoseError | None = field(default=None, init=False)
    _since_best: int = field(default=0, init=False)

    def step(self, arm: ArmState) -> Action | MotionResult:
        """The action for this step, or the end."""
        if self.yaw_rad is None:
            self.yaw_rad = gripper_yaw(arm)
        rotation = gripper_rotation(self.yaw_rad)
        error = pose_error(arm.position, arm.rotation, self.position, rotation)
        reason = self._end(error)
        if reason is not None:
            return MotionResult(reason == "reached", reason, self._steps, error)
        self._steps += 1
        limit = min(1.0, self.speed_m_s / MAX_SPEED_M_S)
        return servo_action(
            arm.position,
            arm.rotation,
            self.position,
            rotation,
            self.gripper,
            ServoLimits(max_position_action=limit),
        )

    def _end(self, error: PoseError) -> str | None:
        arrived = error.position_m < ARRIVED_M and error.rotation_rad < ARRIVED_RAD
        self._settled = self._settled + 1 if arrived else 0
        if self._settled >= _SETTLED_STEPS:
            return "reached"
        if self._is_progress(error):
            self._best, self._since_best = error, 0
        else:
            self._since_best += 1
        if self._since_best > _BLOCKED_STEPS:
            # Close enough for the arm's own stiffness; the servo cannot do better.
            return "reached" if arrived else "blocked"
        return "step_limit" if self._steps >= self.max_steps else None

    def _is_progress(self, error: PoseError) -> bool:
        if self._best is None:
            return True
        nearer = error.position_m < self._best.position_m - _PROGRESS_M
        return nearer or error.rotation_rad < self._best.rotation_rad - _PROGRESS_RAD


def rotate_motion(
    arm: ArmState, yaw_rad: float, gripper: float, max_steps: int = 200
) -> MoveMotion:
    """Turn in place so that the gripper points down with this yaw (0: fingers open along y)."""
    return MoveMotion(arm.position, yaw_rad, gripper, max_steps=max_steps)


def gripper_yaw(arm: ArmState) -> float:
    """Yaw of a gripper that points down, radians; 0 means that the fingers open along y."""
    return float(np.arctan2(arm.rotation[1, 0], arm.rotation[0, 0]))


@dataclass
class GripperMotion:
    """Open or close the fingers; the hand is kept where it was at the start.

    Opening ends when the fingers are apart, closing when they have come to rest.

    Args:
        command: -1 opens, +1 closes.
    """

    command: float
    _steps: int = field(default=0, init=False)
    _start: ArmState | None = field(default=None, init=False)

    def step(self, arm: ArmState) -> Action | MotionResult:
        """The action for this step, or the end."""
        if self._start is None:
            self._start = arm
        if self._is_done(arm):
            return MotionResult(True, "reached", self._steps)
        if self._steps >= _MAX_GRIPPER_STEPS:
            # Fingers that squeeze something soft may tremble for ever; they have done their work.
            return MotionResult(self.command == GRIPPER_CLOSE, "step_limit", self._steps)
        self._steps += 1
        return servo_action(
            arm.position, arm.rotation, self._start.position, self._start.rotation, self.command
        )

    def _is_done(self, arm: ArmState) -> bool:
        if self.command != GRIPPER_CLOSE:
            return self._steps > 0 and arm.opening_m >= _OPEN_M
        speed = abs(float(arm.gripper_qvel[0] - arm.gripper_qvel[1]))
        return self._steps >= _MIN_CLOSE_STEPS and speed < _STILL_M_S


@dataclass
class ShakeMotion:
    """Tilt the open hand to and fro until what clings to a finger has fallen off.

    Args:
        is_clinging: Whether something still does.
    """

    is_clinging: Callable[[], bool]
    _steps: int = field(default=0, init=False)

    def step(self, arm: ArmState) -> Action | MotionResult:
        """The action for this step, or the end."""
        if not self.is_clinging():
            return MotionResult(True, "reached", self._steps)
        if self._steps >= _MAX_SHAKE_STEPS:
            return MotionResult(False, "step_limit", self._steps)
        is_forth = (self._steps // _SHAKE_HALF_PERIOD_STEPS) % 2 == 0
        self._steps += 1
        action = np.zeros(7, dtype=np.float32)
        action[4] = 1.0 if is_forth else -1.0
        action[6] = GRIPPER_OPEN
        return action
