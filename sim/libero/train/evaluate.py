"""Evaluate the flow policy in the simulator, in process, without a server.

    python -m sim.libero.train.evaluate --suite libero_object_swap --tasks 0-9 --inits 0-4

By default the policy makes the grasp (up to three attempts) and scripted motion carries and
places; with --full-policy the policy does all of it. Episodes start from LIBERO's fixed initial
states, which the training never sees.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from robot_sdk.clock import MonotonicClock
from robot_sdk.errors import InvalidArgumentError
from server.policy.flow.checkpoint import DEFAULT_CHECKPOINT
from server.policy.flow.policy import EXECUTED_STEPS, FlowPolicy
from sim.libero.env import IDLE_ACTION, LiberoEnv
from sim.libero.grasp import GraspTarget
from sim.libero.motion import MotionResult, ShakeMotion
from sim.libero.placing import PlaceTarget, place_target
from sim.libero.policy_inputs import PolicyTask, carry_height
from sim.libero.servo import GRIPPER_CLOSE, GRIPPER_OPEN, ServoLimits, servo_action
from sim.libero.suites import SUITES
from sim.libero.train.episodes import PICK_RISE_M
from sim.libero.train.ranges import parse_range

_CARRY = ServoLimits(gain=2.0, max_position_action=0.9)
_LOWER = ServoLimits(gain=2.0, max_position_action=0.5)


@dataclass(frozen=True)
class EpisodeReport:
    """What happened in one episode.

    Attributes:
        picked: The policy lifted the right object, in any attempt.
        num_attempts: Attempts at the pick.
        success: The environment's own judgement.
        policy_steps: Control steps driven by the policy.
        scripted_steps: Control steps driven by scripted motion.
        note: Why the episode was not played, or what went wrong; empty otherwise.
    """

    suite: str
    task: int
    init: int
    picked: bool
    num_attempts: int
    success: bool
    policy_steps: int
    scripted_steps: int
    note: str = ""


@dataclass(frozen=True)
class Budget:
    """Limits of one episode: attempts at the pick, and steps of one attempt or of the skill."""

    num_attempts: int = 3
    attempt_steps: int = 140
    skill_steps: int = 280


def run_episode(
    env: LiberoEnv, policy: FlowPolicy, budget: Budget, full_policy: bool
) -> EpisodeReport:
    """Play one episode from the environment's present initial state."""
    env.reset()
    try:
        goal = next(goal for goal in env.goals if goal.predicate in ("in", "on"))
        place = place_target(env.geometry, goal.predicate, goal.arguments[1])
        name = goal.arguments[0]
        PolicyTask(env, name, place)
    except (StopIteration, InvalidArgumentError) as error:
        return _report(env, False, 0, 0, f"no pick-and-place goal: {error}")
    if full_policy:
        return _play_skill(env, policy, budget, PolicyTask(env, name, place), name)
    attempts = 0
    picked = False
    while attempts < budget.num_attempts and not picked:
        attempts += 1
        task = PolicyTask(env, name, None)  # as the tool policy_pick does: no place is told
        picked = _play_pick(env, policy, budget.attempt_steps, task, attempts)
    policy_steps = env.num_steps
    note = "" if picked else "never lifted the object"
    if picked:
        _carry_and_place(env, task, place)
        note = "" if env.success() else f"placed wrongly, holding {env.held_object()}"
    return _report(env, picked, attempts, policy_steps, note)


def _play_pick(
    env: LiberoEnv, policy: FlowPolicy, max_steps: int, task: PolicyTask, attempt: int
) -> bool:
    start_m = float(task.grasp.frame().position[0, 2])
    for step in range(0, max_steps, EXECUTED_STEPS):
        # The first attempt is the policy's middle way; later ones vary, lest they repeat it.
        seed = 0 if attempt == 1 else 1000 * attempt + step
        for action in policy.infer(task.inputs(), [seed])[0][:EXECUTED_STEPS]:
            env.step(action)
        rise_m = float(task.grasp.frame().position[0, 2]) - start_m
        if env.grasped_object() == task.grasp.name and rise_m > PICK_RISE_M:
            return True
    return False


def _play_skill(
    env: LiberoEnv, policy: FlowPolicy, budget: Budget, task: PolicyTask, name: str
) -> EpisodeReport:
    picked = False
    while env.num_steps < budget.skill_steps:
        for action in policy.infer(task.inputs())[0][:EXECUTED_STEPS]:
            done = env.step(action).success
            picked = picked or env.grasped_object() == name
            if done:
                return _report(env, picked, 1, env.num_steps, "")
    return _report(env, picked, 1, env.num_steps, f"holding {env.held_object()} at the end")


def _carry_and_place(env: LiberoEnv, task: PolicyTask, place: PlaceTarget) -> None:
    """Up, across, down, open, up: straight lines at a height that clears what lies between."""
    plan: GraspTarget = task.grasp.plan
    release = place.release_position(plan)
    height_m = carry_height(env.geometry, task.grasp.name, plan, release)
    over = np.r_[release[:2], height_m]
    up = np.r_[env.arm().position[:2], height_m]
    for target in (up, over):
        _move(env, target, GRIPPER_CLOSE, _CARRY, 80)
    release = place.release_of_held(env.geometry, task.grasp.name, env.arm().position)
    _move(env, release, GRIPPER_CLOSE, _LOWER, 80)
    _wait(env)
    _shake_off(env)
    if not env.success():
        # What leans on a finger comes along for a moment and then falls.
        _move(env, over, GRIPPER_OPEN, _CARRY, 40)
        _wait(env)


def _shake_off(env: LiberoEnv) -> None:
    """What the tool `gripper` does as well when something clings to an open finger."""
    motion = ShakeMotion(lambda: env.clinging_object() is not None)
    while not isinstance(action := motion.step(env.arm()), MotionResult):
        env.step(action)


def _wait(env: LiberoEnv) -> None:
    """Fingers open, until the goal holds or half a second has passed."""
    for _ in range(10):
        if env.step(IDLE_ACTION).success:
            return


def _move(
    env: LiberoEnv, target: np.ndarray, gripper: float, limits: ServoLimits, max_steps: int
) -> None:
    rotation = env.arm().rotation
    for _ in range(max_steps):
        arm = env.arm()
        if float(np.linalg.norm(target - arm.position)) < 0.01:
            return
        env.step(servo_action(arm.position, arm.rotation, target, rotation, gripper, limits))


def _report(
    env: LiberoEnv, picked: bool, attempts: int, policy_steps: int, note: str
) -> EpisodeReport:
    assert env.init_index is not None
    return EpisodeReport(
        suite=env.task.suite,
        task=env.task.index,
        init=env.init_index,
        picked=picked,
        num_attempts=attempts,
        success=env.success(),
        policy_steps=policy_steps,
        scripted_steps=env.num_steps - policy_steps,
        note=note,
    )


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", default="libero_object_swap", help=f"one of {', '.join(SUITES)}")
    parser.add_argument("--tasks", default="0-9")
    parser.add_argument("--inits", default="0-4")
    parser.add_argument("--policy", type=Path, default=DEFAULT_CHECKPOINT)
    parser.add_argument("--full-policy", action="store_true", help="the policy also places")
    parser.add_argument("--json", type=Path, help="write every episode to this file")
    options = parser.parse_args(arguments)

    policy = FlowPolicy.load(options.policy)
    clock = MonotonicClock()
    start_s = clock.now_s()
    reports: list[EpisodeReport] = []
    for task_index in parse_range(options.tasks, "tasks"):
        inits = parse_range(options.inits, "inits")
        with LiberoEnv(options.suite, task_index, inits[0], gl="off") as env:
            language = env.language
            mine: list[EpisodeReport] = []
            for init_index in inits:
                env.reset(init_index=init_index)
                mine.append(run_episode(env, policy, Budget(), options.full_policy))
        reports += mine
        print(_line(mine, language), flush=True)
    print(f"{options.suite}: {_summary(reports)}; {clock.now_s() - start_s:.0f} s", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"episodes": [asdict(r) for r in reports]}, indent=1))
    return 0


def _line(reports: list[EpisodeReport], language: str) -> str:
    notes = "; ".join(f"init {r.init}: {r.note}" for r in reports if r.note)
    return f"task {reports[0].task} ({language}): {_summary(reports)}{'; ' if notes else ''}{notes}"


def _summary(reports: list[EpisodeReport]) -> str:
    total = len(reports)
    picked, success = sum(r.picked for r in reports), sum(r.success for r in reports)
    first = sum(r.picked and r.num_attempts == 1 for r in reports)
    steps = [r.policy_steps + r.scripted_steps for r in reports]
    share = sum(r.policy_steps for r in reports) / max(1, sum(steps))
    return (
        f"picked {picked}/{total} (first attempt {first}), success {success}/{total}, "
        f"steps {min(steps)}-{max(steps)}, by the policy {share:.0%}"
    )


if __name__ == "__main__":
    sys.exit(main())
