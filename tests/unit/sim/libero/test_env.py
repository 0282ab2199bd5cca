"""The environment: deterministic, strict about its arguments, true to LIBERO's conventions."""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from sim.libero.env import IDLE_ACTION, LiberoEnv
from sim.libero.placing import Goal

pytestmark = pytest.mark.sim


def _play(env: LiberoEnv, num_steps: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    states = [env.sim_state()]
    for _ in range(num_steps):
        env.step(rng.uniform(-1.0, 1.0, 7))
        states.append(env.sim_state())
    return states


def test_same_task_init_and_seed_give_bitwise_the_same_states(pudding_env: LiberoEnv) -> None:
    pudding_env.reset(init_index=0, seed=0)
    first = _play(pudding_env, 30)
    pudding_env.reset()
    again = _play(pudding_env, 30)
    with LiberoEnv("libero_object_swap", 8, 0, seed=0, gl="off") as other:
        fresh = _play(other, 30)
    for a, b, c in zip(first, again, fresh, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_another_init_state_is_another_start(pudding_env: LiberoEnv) -> None:
    pudding_env.reset(init_index=0)
    first = pudding_env.sim_state()
    pudding_env.reset(init_index=1)
    assert not np.array_equal(first, pudding_env.sim_state())


def test_asking_about_geometry_does_not_change_the_physics(pudding_env: LiberoEnv) -> None:
    pudding_env.reset(init_index=0)
    plain = _play(pudding_env, 10)[-1]
    pudding_env.reset()
    rng = np.random.default_rng(3)
    for _ in range(10):
        for name in pudding_env.geometry.names:
            pudding_env.geometry.extent(name)
        pudding_env.grasped_object()
        pudding_env.success()
        pudding_env.step(rng.uniform(-1.0, 1.0, 7))
    np.testing.assert_array_equal(plain, pudding_env.sim_state())


def test_the_callers_random_numbers_are_left_alone(pudding_env: LiberoEnv) -> None:
    np.random.seed(5)
    expected = np.random.random(3)
    np.random.seed(5)
    pudding_env.reset()
    np.testing.assert_array_equal(np.random.random(3), expected)


def test_what_the_task_says_can_be_read(pudding_env: LiberoEnv) -> None:
    assert pudding_env.language == "pick up the chocolate pudding and place it in the basket"
    assert pudding_env.goals == (Goal("in", ("chocolate_pudding_1", "basket_1_contain_region")),)
    assert "basket_1" in pudding_env.object_names
    assert pudding_env.objects_of_interest == ("chocolate_pudding_1", "basket_1")
    assert pudding_env.control_hz == 20.0
    assert pudding_env.step_limit == 280
    assert pudding_env.num_init_states == 50


def test_steps_count_from_the_settled_scene_and_pass_the_suite_limit(
    pudding_env: LiberoEnv,
) -> None:
    assert pudding_env.reset().step == 0
    for expected in range(1, 4):
        assert pudding_env.step(IDLE_ACTION).step == expected
    # robosuite refuses every step after its own horizon: pretend that 3,100 steps have passed.
    pudding_env._env.timestep = 3100
    for expected in range(4, 6):
        assert pudding_env.step(IDLE_ACTION).step == expected


@pytest.mark.parametrize(
    "action",
    [
        [0.0] * 6,
        [0.0] * 8,
        [[0.0] * 7],
        [np.nan] + [0.0] * 6,
        [np.inf] + [0.0] * 6,
        [1.5] + [0.0] * 6,
    ],
)
def test_a_bad_action_is_refused_and_nothing_moves(
    pudding_env: LiberoEnv, action: list[float]
) -> None:
    before = pudding_env.sim_state()
    with pytest.raises(InvalidArgumentError, match="action"):
        pudding_env.step(action)
    np.testing.assert_array_equal(before, pudding_env.sim_state())


def test_f8_state_is_liberos_eight_numbers_and_plus_one_closes(pudding_env: LiberoEnv) -> None:
    pudding_env.reset()
    opened = pudding_env.arm()
    state = opened.policy_state()
    assert state.shape == (8,)
    assert state.dtype == np.float32
    np.testing.assert_allclose(state[:3], opened.position, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(state[3:6]), np.pi, atol=0.15)
    np.testing.assert_allclose(state[6:], opened.gripper_qpos, atol=1e-6)
    assert state[6] > 0.035
    assert state[7] < -0.035
    assert abs(float(state[6] + state[7])) < 0.001
    for _ in range(15):
        pudding_env.step([0.0] * 6 + [1.0])
    closed = pudding_env.arm()
    assert closed.opening_m < 0.005 < 0.07 < opened.opening_m
    for _ in range(15):
        pudding_env.step([0.0] * 6 + [-1.0])
    assert pudding_env.arm().opening_m > 0.07


def test_a_closed_environment_says_so() -> None:
    env = LiberoEnv("libero_spatial_swap", 0, 0, gl="off")
    env.close()
    env.close()
    with pytest.raises(RobotSdkError, match="closed"):
        env.step(IDLE_ACTION)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("libero_objct_swap", 0, 0), ["suite", "libero_objct_swap", "did you mean"]),
        (("libero_object", 10, 0), ["task_index", "10", "0 to 9", "nearest is 9"]),
        (("libero_object", -1, 0), ["task_index", "-1", "0 to 9", "nearest is 0"]),
        (("libero_object", 0, 50), ["init_index", "50", "0 to 49", "nearest is 49"]),
        (("libero_object", 0, 0, -1), ["seed", "-1"]),
    ],
)
def test_unknown_suite_task_init_or_seed_is_named_with_what_is_allowed(
    arguments: tuple[object, ...], words: list[str]
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        LiberoEnv(*arguments, gl="off")  # type: ignore[arg-type]
    for word in words:
        assert word in str(caught.value)
