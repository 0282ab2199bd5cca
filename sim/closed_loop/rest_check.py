"""Measure what leaving out holds at rest leaves out.

    python -m sim.closed_loop.rest_check --tasks 0-9

For each task the robot holds for a minute at the start, and again with the object in its fingers;
every step is computed. It prints how far any position of the world still went after the moment from
which on `RestingRobot` would have left steps out, and whether the object was still held.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from robot_sdk.clock import VirtualClock
from server.policy.flow.policy import EXECUTED_STEPS, FlowPolicy
from sim.cli.indices import parse_indices
from sim.closed_loop.resting import RestingRobot
from sim.libero.env import LiberoEnv
from sim.libero.policy_inputs import PolicyTask
from sim.libero.suites import NUM_TASKS

SUITE = "libero_object_swap"
#: One minute at 20 Hz.
HELD_STEPS = 1200
_PICK_STEPS = 140


@dataclass(frozen=True)
class Rest:
    """One minute of holding.

    Attributes:
        computed_steps: Until the world was at rest; None: it never was.
        change: Largest change of any position after that, m, rad or quaternion components.
        held_before, held_after: What was in the fingers.
    """

    computed_steps: int | None
    change: float
    held_before: str | None
    held_after: str | None


def hold(robot: RestingRobot, num_steps: int) -> Rest:
    """Hold, every step computed."""
    env = robot.env
    before = env.held_object()
    at_rest: int | None = None
    first = np.zeros(0)
    change = 0.0
    for step in range(1, num_steps + 1):
        robot.hold()
        if at_rest is None and robot.is_at_rest:
            at_rest, first = step, env.positions()
        if at_rest is not None:
            change = max(change, float(np.abs(env.positions() - first).max()))
    return Rest(at_rest, change, before, env.held_object())


def pick(robot: RestingRobot, policy: FlowPolicy) -> None:
    """Let the policy take what the task is about, and lift it."""
    env = robot.env
    name = env.goals[0].arguments[0]
    task = PolicyTask(env, name, None)
    for _ in range(0, _PICK_STEPS, EXECUTED_STEPS):
        for action in policy.infer(task.inputs())[0][:EXECUTED_STEPS]:
            robot.act(action)
        if env.grasped_object() == name:
            break


def main() -> None:
    """Print one line per task and situation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tasks", default="0-9", help='task indices, "0-9" or "0,3,5-7"')
    parser.add_argument("--steps", type=int, default=HELD_STEPS, help="control steps to hold")
    args = parser.parse_args()
    policy = FlowPolicy.load()
    for index in parse_indices("--tasks", args.tasks, NUM_TASKS):
        with LiberoEnv(SUITE, index, gl="off") as env:
            robot = RestingRobot(env, VirtualClock(), leaves_out=False)
            _say(index, "at the start", hold(robot, args.steps))
            pick(robot, policy)
            _say(index, "after a pick", hold(robot, args.steps))


def _say(task: int, when: str, rest: Rest) -> None:
    steps = "never at rest" if rest.computed_steps is None else f"rest at {rest.computed_steps:4}"
    print(
        f"task {task} {when}: {steps}, then at most {rest.change:.1e} more; "
        f"held {rest.held_before} and then {rest.held_after}",
        flush=True,
    )


if __name__ == "__main__":
    main()
