"""One recorded demonstration: a disturbed start, a noisy expert, and what it would have done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from server.policy.flow.features import INPUT_WIDTHS
from sim.libero.env import LiberoEnv
from sim.libero.placing import place_target
from sim.libero.policy_inputs import PolicyTask
from sim.libero.rotation import gripper_rotation
from sim.libero.scripted_demo import ScriptedExpert
from sim.libero.servo import GRIPPER_CLOSE, GRIPPER_OPEN, servo_action

Array = NDArray[np.float64]
#: Named inputs of one observation to a chunk of actions, (horizon, 7).
ChunkPolicy = Callable[[dict[str, NDArray[np.float32]]], NDArray[np.float32]]

_MAX_STEPS = 280
#: A pick counts when the object is this far above where it was taken, metres.
PICK_RISE_M = 0.05
#: Steps recorded after success, so that the policy has seen what comes after.
_STEPS_AFTER_SUCCESS = 8
_EXECUTED_STEPS = 5


@dataclass(frozen=True)
class Demonstration:
    """One episode of T steps.

    Attributes:
        inputs: Named policy inputs to (T, width), float32.
        actions: What the expert would do at each step, (T, 7), float32 (not what was executed).
        success: Whether the task, or the pick, was done in the end.
    """

    inputs: dict[str, NDArray[np.float32]]
    actions: NDArray[np.float32]
    success: bool


@dataclass(frozen=True)
class Disturbance:
    """How much is varied.

    Attributes:
        object_shift_m: Largest shift of the target along x and y before the start.
        object_turn_rad: Largest turn of the target, in half of the episodes.
        noise_actions: Standard deviation of the noise on position and rotation actions, with
            which the executed actions differ from the recorded ones (Laskey et al. 2017, DART).
        pick_only_share: Share of the episodes without a destination.
    """

    object_shift_m: float = 0.05
    object_turn_rad: float = 0.5
    noise_actions: tuple[float, float] = (0.35, 0.06)
    pick_only_share: float = 0.4


def record(
    env: LiberoEnv,
    rng: np.random.Generator,
    disturbance: Disturbance,
    policy: ChunkPolicy | None = None,
    policy_share: float = 0.0,
) -> Demonstration:
    """One demonstration from a random reset of `env` (made with `init_index=None`).

    Args:
        env: The environment; its seed is drawn from `rng`.
        rng: Source of all randomness.
        disturbance: How much is varied.
        policy: If given, it drives in `policy_share` of the chunks while the expert says what it
            would have done (Ross et al. 2011, DAgger).
        policy_share: Probability that the policy drives a chunk of five steps.
    """
    env.reset(seed=int(rng.integers(1 << 31)))
    goal = env.goals[0]
    name = goal.arguments[0]
    shift = rng.uniform(-1.0, 1.0, 2) * disturbance.object_shift_m
    turn = rng.uniform(-1.0, 1.0) * disturbance.object_turn_rad * float(rng.random() < 0.5)
    env.displace_object(name, shift, turn)
    env.settle()
    _disturb_arm(env, rng, name)

    pick_only = bool(rng.random() < disturbance.pick_only_share)
    place = None if pick_only else place_target(env.geometry, goal.predicate, goal.arguments[1])
    task = PolicyTask(env, name, place)
    start_height_m = float(task.grasp.frame().position[0, 2])
    expert = ScriptedExpert()
    columns: dict[str, list[NDArray[np.float32]]] = {key: [] for key in INPUT_WIDTHS}
    actions: list[NDArray[np.float32]] = []
    noise = np.zeros(6)
    chunk: list[NDArray[np.float32]] = []
    success = False
    steps_after_success = 0
    for step in range(_MAX_STEPS):
        inputs = task.inputs()
        action = expert.act(task.view(pick_only))
        for key, value in inputs.items():
            columns[key].append(value)
        actions.append(action)
        if step % _EXECUTED_STEPS == 0:
            drives = policy is not None and rng.random() < policy_share
            chunk = list(policy(inputs)[:_EXECUTED_STEPS]) if policy and drives else []
        executed = action.astype(np.float64)
        if chunk:
            executed = chunk.pop(0).astype(np.float64)
        else:
            noise = _next_noise(noise, rng, disturbance.noise_actions)
            executed[:6] += noise * _noise_share(expert.phase)
        result = env.step(np.clip(executed, -1.0, 1.0))
        rise_m = float(task.grasp.frame().position[0, 2]) - start_height_m
        success = success or (
            (env.grasped_object() == name and rise_m > PICK_RISE_M) if pick_only else result.success
        )
        steps_after_success += success
        if steps_after_success > _STEPS_AFTER_SUCCESS:
            break
    return Demonstration(
        {key: np.stack(rows) for key, rows in columns.items()}, np.stack(actions), success
    )


def _next_noise(noise: Array, rng: np.random.Generator, scale: tuple[float, float]) -> Array:
    """Noise that stays the same for a dozen steps, then changes or stops for a while."""
    if rng.random() >= 0.08:
        return noise
    fresh = np.r_[rng.normal(0.0, scale[0], 3), rng.normal(0.0, scale[1], 3)]
    return fresh * float(rng.random() < 0.6)


def _noise_share(phase: str) -> float:
    return {"approach": 1.0, "lift": 1.0, "carry": 1.0, "descend": 0.35, "lower": 0.35}.get(
        phase, 0.0
    )


def _disturb_arm(env: LiberoEnv, rng: np.random.Generator, name: str) -> None:
    """Half of the time: start elsewhere, or right after a failed grasp, fingers open or closed."""
    kind = rng.random()
    if kind < 0.5:
        return
    grasp = PolicyTask(env, name, None).grasp.frame()
    yaw = float(grasp.yaw_rad[0])
    if kind < 0.8:
        start = env.arm().position
        target = start + rng.uniform([-0.10, -0.18, -0.12], [0.15, 0.18, 0.08])
        target[2] = max(target[2], grasp.top_m[0] + 0.06)
        _go(env, target, rng.uniform(-0.5, 0.5), GRIPPER_OPEN, 14)
    else:
        # Over the object, then down beside its middle, as a grasp that misses would be.
        middle = grasp.position[0]
        aside = rng.normal(0.0, 0.02, 2)
        yaw = yaw + rng.normal(0.0, 0.2)
        over = np.r_[middle[:2] + aside, grasp.top_m[0] + 0.05]
        _go(env, over, yaw, GRIPPER_OPEN, 25)
        low = np.r_[middle[:2] + aside, middle[2] + rng.uniform(0.0, 0.06)]
        _go(env, low, yaw, GRIPPER_OPEN, 8)
    if rng.random() < 0.5:
        hand = env.arm().position
        _go(env, hand + [0.0, 0.0, rng.uniform(0.0, 0.05)], yaw, GRIPPER_CLOSE, 10)


def _go(env: LiberoEnv, target: Array, yaw: float, gripper: float, num_steps: int) -> None:
    rotation = gripper_rotation(yaw)
    for _ in range(num_steps):
        arm = env.arm()
        env.step(servo_action(arm.position, arm.rotation, target, rotation, gripper))
