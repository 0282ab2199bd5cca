"""Whether an episode counts as a success."""

from __future__ import annotations

from robot_sdk.results import Verdict
from sim.libero.robot import LiberoRobot

#: Longest time that things get to come to rest before the verdict, control steps (1 s). In
#: lockstep the world stands still with the last tool; a real one goes on, and things fall.
SETTLING_STEPS = 20


def settle_and_judge(robot: LiberoRobot) -> Verdict:
    """Let the world go on with the robot holding, until the goal holds or a second has passed."""
    for _ in range(SETTLING_STEPS):
        if robot.success_step is not None:
            break
        robot.hold()
    return judge(robot)


def judge(robot: LiberoRobot) -> Verdict:
    """LIBERO's own goal check, and the rule that the policy makes the grasps.

    The goal has to hold after any one control step, as in LIBERO's evaluations. Every object that
    a goal wants somewhere ("in", "on") must last have been grasped by a policy: scripted grasps
    would measure the script.
    """
    if robot.success_step is None:
        return Verdict(False, "goal_not_reached")
    for goal in robot.env.goals:
        if goal.predicate not in ("in", "on"):
            continue
        grasp = robot.grasps.last(goal.arguments[0])
        if grasp is None or grasp.actor != "policy":
            return Verdict(False, "grasp_not_by_policy")
    return Verdict(True, "success")
