"""The scripted expert that shows the flow policy how to pick and place.

It looks only at values the policy also sees (plus whether the fingers hold the object), and it
goes back to an earlier phase when a grasp fails or an object slips, so that recoveries are shown
as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from server.policy.flow.grasp_frame import GraspFrame
from sim.libero.env import ArmState
from sim.libero.rotation import gripper_rotation
from sim.libero.servo import (
    GRIPPER_CLOSE,
    GRIPPER_OPEN,
    ServoLimits,
    pose_error,
    servo_action,
)

Array = NDArray[np.float64]
Phase = Literal["approach", "descend", "close", "lift", "carry", "lower", "release", "retreat"]

#: The gripper stays at most this far above the grasp point while it is not yet aligned, metres.
_HOVER_M = 0.08
#: The lower the hand is under the approach height, the less it moves sideways; at this many
#: metres below it hardly does.
_SIDEWAYS_BAND_M = 0.05
_ALIGNED_M = 0.020
_ALIGNED_RAD = 0.10
_LOST_ALIGNMENT_M = 0.035
_AT_GRASP_M = 0.008
#: Fingers nearer than this hold nothing: the thinnest graspable piece is 3 mm or more, metres.
_EMPTY_OPENING_M = 0.002
#: Below this sideways error the gripper may come all the way down; each metre more keeps it
#: `_FUNNEL_SLOPE` metres higher.
_FUNNEL_M = 0.006
_FUNNEL_SLOPE = 3.0
#: From wide open to shut the fingers need about this many steps.
_MAX_CLOSE_STEPS = 18
_FAST = ServoLimits(gain=2.0)
_DESCEND = ServoLimits(gain=2.0, max_position_action=0.6)
_CARRY = ServoLimits(gain=2.0, max_position_action=0.9)
_LOWER = ServoLimits(gain=2.0, max_position_action=0.5)


@dataclass(frozen=True)
class ExpertView:
    """What the expert looks at.

    Attributes:
        arm: The arm now.
        grasp: Top-down grasp of the target now (a batch of one).
        held: Whether both fingers touch the target.
        place_position: Where to let go, (3,), metres, world frame.
        approach_height_m: Height at which the end effector goes over to the target, metres.
        carry_height_m: Height of the end effector while carrying, metres.
        pick_only: Lift and hold, do not place.
    """

    arm: ArmState
    grasp: GraspFrame
    held: bool
    place_position: Array
    approach_height_m: float
    carry_height_m: float
    pick_only: bool


class ScriptedExpert:
    """Pick and place as a small state machine. Call `act` once per control step."""

    def __init__(self) -> None:
        self.phase: Phase = "approach"
        self._steps_in_phase = 0
        self._lift_xy: Array = np.zeros(2)

    def act(self, view: ExpertView) -> NDArray[np.float32]:
        """The action for this control step, (7,), float32, in [-1, 1]."""
        self._advance(view)
        self._steps_in_phase += 1
        return self._action(view)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._steps_in_phase = 0

    def _advance(self, view: ExpertView) -> None:
        """Move to the phase that fits what is seen now."""
        arm, grasp = view.arm, view.grasp
        goal = grasp.position[0]
        yaw = float(grasp.yaw_rad[0])
        lateral = float(np.linalg.norm(goal[:2] - arm.position[:2]))
        error = pose_error(arm.position, arm.rotation, goal, gripper_rotation(yaw))
        empty = arm.opening_m < _EMPTY_OPENING_M
        match self.phase:
            case "approach":
                aligned = lateral < _ALIGNED_M and error.rotation_rad < _ALIGNED_RAD
                if aligned and arm.opening_m > float(grasp.width_m[0]) + 0.004:
                    self._enter("descend")
            case "descend":
                stuck = self._steps_in_phase > 25
                if lateral > _LOST_ALIGNMENT_M or (stuck and lateral > _ALIGNED_M):
                    self._enter("approach")
                elif error.position_m < _AT_GRASP_M or stuck:
                    self._enter("close")
            case "close":
                if empty:
                    self._enter("approach")
                elif self._steps_in_phase >= _MAX_CLOSE_STEPS or (
                    self._steps_in_phase >= 5 and view.held and _is_still(arm)
                ):
                    self._lift_xy = arm.position[:2].copy()
                    self._enter("lift")
            case "lift" | "carry" | "lower":
                if empty or (not view.held and self._steps_in_phase > 4):
                    self._enter("approach")
                elif self.phase == "lift" and not view.pick_only:
                    if arm.position[2] > view.carry_height_m - 0.02:
                        self._enter("carry")
                elif self.phase == "carry":
                    if float(np.linalg.norm(view.place_position[:2] - arm.position[:2])) < 0.012:
                        self._enter("lower")
                elif self.phase == "lower":
                    distance = float(np.linalg.norm(view.place_position - arm.position))
                    if distance < 0.012 or self._steps_in_phase > 40:
                        self._enter("release")
            case "release":
                if self._steps_in_phase >= 8:
                    self._enter("retreat")
            case "retreat":
                pass

    def _action(self, view: ExpertView) -> NDArray[np.float32]:
        arm, goal = view.arm, view.grasp.position[0]
        rotation = gripper_rotation(float(view.grasp.yaw_rad[0]))
        place = view.place_position
        at_place = np.array([place[0], place[1], view.carry_height_m])
        match self.phase:
            case "approach":
                target = self._approach_target(arm, goal, view.approach_height_m)
                return servo_action(
                    arm.position, arm.rotation, target, rotation, GRIPPER_OPEN, _FAST
                )
            case "descend":
                lateral = float(np.linalg.norm(goal[:2] - arm.position[:2]))
                above = min(_HOVER_M, _FUNNEL_SLOPE * max(0.0, lateral - _FUNNEL_M))
                target = goal + [0.0, 0.0, above]
                return servo_action(
                    arm.position, arm.rotation, target, rotation, GRIPPER_OPEN, _DESCEND
                )
            case "close":
                return servo_action(arm.position, arm.rotation, goal, rotation, GRIPPER_CLOSE)
            case "lift":
                target = np.r_[self._lift_xy, view.carry_height_m]
                held_rotation = arm.rotation if view.held else rotation
                return servo_action(
                    arm.position, arm.rotation, target, held_rotation, GRIPPER_CLOSE, _CARRY
                )
            case "carry":
                return servo_action(
                    arm.position, arm.rotation, at_place, arm.rotation, GRIPPER_CLOSE, _CARRY
                )
            case "lower":
                return servo_action(
                    arm.position, arm.rotation, place, arm.rotation, GRIPPER_CLOSE, _LOWER
                )
            case "release":
                return servo_action(arm.position, arm.rotation, place, arm.rotation, GRIPPER_OPEN)
            case "retreat":
                return servo_action(
                    arm.position, arm.rotation, at_place, arm.rotation, GRIPPER_OPEN, _CARRY
                )

    @staticmethod
    def _approach_target(arm: ArmState, goal: Array, height_m: float) -> Array:
        """Over the object; a hand that is low and off to the side goes up before it goes over."""
        offset = goal[:2] - arm.position[:2]
        room = 1.0 - (height_m - arm.position[2] - 0.01) / _SIDEWAYS_BAND_M
        share = 1.0 if float(np.linalg.norm(offset)) < 0.02 else float(np.clip(room, 0.05, 1.0))
        return np.r_[arm.position[:2] + share * offset, max(height_m, goal[2] + _HOVER_M / 2)]


def _is_still(arm: ArmState) -> bool:
    return abs(float(arm.gripper_qvel[0] - arm.gripper_qvel[1])) < 0.01
