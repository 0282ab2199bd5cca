"""The named arrays that the flow policy takes, from the live environment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from server.policy.flow.features import (
    APPROACH_HEIGHT,
    CARRY_HEIGHT,
    GRIPPER_QVEL,
    PLACE_POS,
    STATE,
    TARGET_POS,
    TARGET_QUAT,
    TARGET_SIZE,
)
from server.policy.flow.grasp_frame import GraspFrame, grasp_frame
from sim.libero.env import LiberoEnv
from sim.libero.geometry import OrientedBox, SceneGeometry
from sim.libero.grasp import GraspTarget, plan_grasp
from sim.libero.placing import PlaceTarget, place_target
from sim.libero.rotation import matrix_from_quat, quat_from_matrix
from sim.libero.scripted_demo import ExpertView
from sim.libero.servo import travel_height

Array = NDArray[np.float64]

#: How far a pick without a destination lifts the object, metres.
PICK_LIFT_M = 0.15
#: The finger tips reach this far below the end effector, metres.
_FINGER_TIP_M = 0.019
#: Least height of the approach above the object's top, metres.
_MIN_HOVER_M = 0.05
#: Least height of the carry above grasp point and release point, metres.
_MIN_RISE_M = 0.06


class TrackedGrasp:
    """A planned grasp that moves along with its object.

    The piece of the object to grasp is chosen once, where there is most room, and then stays the
    same piece while the object is pushed or carried. Plan a new one for a new attempt.

    Args:
        geometry: The scene.
        name: The object.
    """

    def __init__(self, geometry: SceneGeometry, name: str) -> None:
        self._geometry = geometry
        self.name = name
        self.plan: GraspTarget = plan_grasp(geometry, name)
        pose = geometry.pose(name)
        matrix = matrix_from_quat(pose.quat)
        self._local_center = matrix.T @ (self.plan.box.center - pose.position)
        self._local_matrix = matrix.T @ matrix_from_quat(self.plan.box.quat)

    def box(self) -> OrientedBox:
        """The piece to grasp, as it lies now."""
        pose = self._geometry.pose(self.name)
        matrix = matrix_from_quat(pose.quat)
        return OrientedBox(
            center=pose.position + matrix @ self._local_center,
            quat=quat_from_matrix(matrix @ self._local_matrix),
            size=self.plan.box.size,
        )

    def frame(self) -> GraspFrame:
        """The top-down grasp of `box()` (a batch of one)."""
        box = self.box()
        return grasp_frame(box.center[None], box.quat[None], box.size[None])


def carry_height(
    geometry: SceneGeometry, name: str, plan: GraspTarget, release_position: Array
) -> float:
    """Height of the end effector, metres, at which to carry an object over what lies between.

    Args:
        geometry: The scene.
        name: The object that is carried.
        plan: How it is held.
        release_position: Where the end effector will open, (3,), metres, world frame.
    """
    return travel_height(
        plan.position[:2],
        release_position[:2],
        geometry.obstacle_points((name,)),
        plan.hang_m,
        max(float(release_position[2]), float(plan.position[2])) + _MIN_RISE_M,
    )


class PolicyTask:
    """What the flow policy is asked to do: take one object and, if a place is given, put it there.

    Args:
        env: The environment, at the moment the policy starts.
        name: The object to take.
        place: Where to put it; None to take and lift only.
    """

    def __init__(self, env: LiberoEnv, name: str, place: PlaceTarget | None) -> None:
        self._env = env
        self.grasp = TrackedGrasp(env.geometry, name)
        plan = self.grasp.plan
        self.approach_height_m = travel_height(
            env.arm().position[:2],
            plan.position[:2],
            env.geometry.obstacle_points((name,)),
            _FINGER_TIP_M,
            float(plan.frame.top_m[0]) + _MIN_HOVER_M,
        )
        if place is None:
            self.place_position = plan.position + [0.0, 0.0, PICK_LIFT_M]
            self.carry_height_m = float(self.place_position[2])
            return
        self.place_position = place.release_position(plan)
        self.carry_height_m = carry_height(env.geometry, name, plan, self.place_position)

    @classmethod
    def from_goal(cls, env: LiberoEnv, goal_index: int = 0) -> PolicyTask:
        """The task that a goal of the environment states; the goal must be "in" or "on"."""
        goal = env.goals[goal_index]
        place = place_target(env.geometry, goal.predicate, goal.arguments[-1])
        return cls(env, goal.arguments[0], place)

    def inputs(self) -> dict[str, NDArray[np.float32]]:
        """The policy's named inputs now; shapes and units as in `server.policy.flow.features`."""
        arm = self._env.arm()
        box = self.grasp.box()
        return {
            STATE: arm.policy_state(),
            GRIPPER_QVEL: arm.gripper_qvel.astype(np.float32),
            TARGET_POS: box.center.astype(np.float32),
            TARGET_QUAT: box.quat.astype(np.float32),
            TARGET_SIZE: box.size.astype(np.float32),
            PLACE_POS: self.place_position.astype(np.float32),
            APPROACH_HEIGHT: np.array([self.approach_height_m], dtype=np.float32),
            CARRY_HEIGHT: np.array([self.carry_height_m], dtype=np.float32),
        }

    def view(self, pick_only: bool) -> ExpertView:
        """What the scripted expert looks at now."""
        return ExpertView(
            arm=self._env.arm(),
            grasp=self.grasp.frame(),
            held=self._env.held_object() == self.grasp.name,
            place_position=self.place_position,
            approach_height_m=self.approach_height_m,
            carry_height_m=self.carry_height_m,
            pick_only=pick_only,
        )
