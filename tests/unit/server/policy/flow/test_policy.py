"""The policy: bounded, repeatable, honest about what it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError
from server.policy.flow.features import INPUT_WIDTHS
from server.policy.flow.policy import EXECUTED_STEPS, FlowPolicy, flow_policy_spec
from tests.unit.server.policy.flow.helpers import METADATA, example_inputs, random_arrays

_ROOT = Path(__file__).parents[5]


@pytest.fixture(scope="module")
def policy() -> FlowPolicy:
    return FlowPolicy(random_arrays(), METADATA)


def _batch(num_rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        name: np.stack([value + rng.normal(0.0, 0.02, value.shape) for _ in range(num_rows)])
        for name, value in example_inputs().items()
    }


def test_a_chunk_has_ten_rows_of_seven_within_the_limits(policy: FlowPolicy) -> None:
    wild = FlowPolicy({k: v * 30 for k, v in random_arrays().items()}, METADATA)
    for tested in (policy, wild):
        chunk = tested.infer(example_inputs())
        assert chunk.shape == (1, 10, 7)
        assert chunk.dtype == np.float32
        assert np.all(np.abs(chunk) <= 1.0)


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_one_row_and_one_seed_give_bitwise_the_same_chunk(policy: FlowPolicy, seed: int) -> None:
    inputs = example_inputs()
    np.testing.assert_array_equal(policy.infer(inputs, [seed]), policy.infer(inputs, [seed]))


def test_seed_0_is_the_default_and_other_seeds_differ(policy: FlowPolicy) -> None:
    inputs = example_inputs()
    np.testing.assert_array_equal(policy.infer(inputs), policy.infer(inputs, [0]))
    assert not np.array_equal(policy.infer(inputs, [1]), policy.infer(inputs, [2]))


def test_a_row_of_a_batch_is_what_it_is_alone(policy: FlowPolicy) -> None:
    batch = _batch(5)
    together = policy.infer(batch, [0, 1, 2, 3, 4])
    for row in range(5):
        alone = policy.infer({name: rows[row] for name, rows in batch.items()}, [row])
        np.testing.assert_allclose(together[row], alone[0], atol=1e-5)


@pytest.mark.parametrize("seeds", [[], [1, 2], [-1]])
def test_one_seed_per_row_is_needed(policy: FlowPolicy, seeds: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match="seed"):
        policy.infer(example_inputs(), seeds)


def test_the_spec_names_every_input_and_calls_itself_a_stand_in(policy: FlowPolicy) -> None:
    spec = policy.spec()
    assert spec == flow_policy_spec(METADATA.horizon)
    assert {key.name: key.shape for key in spec.observation_keys} == {
        name: (width,) for name, width in INPUT_WIDTHS.items()
    }
    for key in spec.observation_keys:
        assert key.privileged == key.name.startswith("privileged/")
    assert spec.stand_in
    assert spec.control_hz == 20.0
    assert 1 <= spec.executed_steps == EXECUTED_STEPS <= spec.horizon
    assert [d.name for d in spec.action_dimensions][-1] == "gripper"


def test_running_the_policy_needs_no_torch() -> None:
    code = (
        "import sys; from server.policy.flow.policy import FlowPolicy; FlowPolicy.load();"
        "print('torch' in sys.modules, 'mujoco' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
