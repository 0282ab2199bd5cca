from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robot_sdk.api.v1 import common_pb2, policy_pb2
from robot_sdk.clock import VirtualClock
from robot_sdk.errors import (
    BadModelOutputError,
    InvalidArgumentError,
    ObservationMismatchError,
    RetryableError,
    from_detail,
)
from robot_sdk.images import encode_image
from robot_sdk.tensors import decode_tensor, encode_tensor
from server.policy.host import PolicyHost, RawObservation
from server.policy.interface import PolicyInput, PolicyOutput
from server.policy.pi05.policy import Pi05Policy
from server.policy.pi05.runner import Runner, RunResult
from tests.unit.server.policy.pi05.helpers import observation, tiny_policy


def actions(policy: Pi05Policy, *batch: PolicyInput) -> np.ndarray:
    outputs = policy.infer(batch)
    assert all(isinstance(output, PolicyOutput) for output in outputs), outputs
    return np.stack([output.actions for output in outputs])  # type: ignore[union-attr]


def failing_on_row(runner: Runner, row: int, value: float) -> Any:
    def run(rows: Any) -> RunResult:
        result = runner.run(rows)
        result.actions[row, 2, 1] = value
        return result

    return run


def test_a_chunk_is_in_the_robots_units_and_says_where_the_time_went(policy: Pi05Policy) -> None:
    (output,) = policy.infer([observation()])

    assert isinstance(output, PolicyOutput)
    assert output.actions.shape == (50, 7)
    assert output.actions.dtype == np.float32
    assert np.abs(output.actions).max() <= 1.0
    assert output.vision_s is not None
    assert output.prefill_s is not None
    assert output.denoise_s is not None
    assert min(output.vision_s, output.prefill_s, output.denoise_s) > 0


def test_four_robots_together_get_what_each_gets_alone(policy: Pi05Policy) -> None:
    batch = [observation(seed) for seed in range(4)]

    together = actions(policy, *batch)
    alone = np.concatenate([actions(policy, item) for item in batch])

    assert np.allclose(together, alone, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.01


def test_the_same_observation_gives_bitwise_the_same_chunk(policy: Pi05Policy) -> None:
    assert np.array_equal(actions(policy, observation(1)), actions(policy, observation(1)))


@pytest.mark.parametrize(
    "changes", [{"noise_seed": 8}, {"sequence": 5}, {"noise_seed": None}], ids=str
)
def test_noise_comes_from_seed_and_sequence(policy: Pi05Policy, changes: dict[str, Any]) -> None:
    changed = observation(1, **changes)

    assert not np.array_equal(actions(policy, observation(1)), actions(policy, changed))
    assert np.array_equal(actions(policy, changed), actions(policy, changed))


@pytest.mark.parametrize("part", ["instruction", "tensors", "images"])
def test_what_the_robot_sends_matters(policy: Pi05Policy, part: str) -> None:
    changes = {
        "instruction": "open the drawer",
        "tensors": observation(2).tensors,
        "images": observation(2).images,
    }
    changed = dataclasses.replace(observation(1), **{part: changes[part]})

    assert np.abs(actions(policy, observation(1)) - actions(policy, changed)).max() > 1e-4


def test_the_bare_prompt_does_not_look_at_the_state(tokenizer_path: Path) -> None:
    policy = tiny_policy(tokenizer_path, recipe="libero-openpi")
    blind = observation(1, tensors={})

    assert actions(policy, observation(1)).shape == (1, 10, 7)
    assert np.array_equal(actions(policy, observation(1)), actions(policy, blind))


def test_random_weights_say_so(policy: Pi05Policy) -> None:
    assert policy.spec.stand_in
    assert "Random weights" in policy.spec.note


@pytest.mark.parametrize(
    ("changes", "kind", "field"),
    [
        ({"images": {}}, ObservationMismatchError, "images/agentview"),
        (
            {"images": {"images/agentview": np.zeros((40, 40, 3), np.uint8)}},
            ObservationMismatchError,
            "images/wrist",
        ),
        (
            {
                "images": {
                    f"images/{name}": np.zeros((3, 40, 40), np.uint8)
                    for name in ("agentview", "wrist")
                }
            },
            ObservationMismatchError,
            "images/agentview",
        ),
        (
            {"tensors": {"observation/state": np.zeros(7, np.float32)}},
            ObservationMismatchError,
            "observation/state",
        ),
        ({"tensors": {}}, ObservationMismatchError, "observation/state"),
        (
            {"tensors": {"observation/state": np.full(8, np.nan, np.float32)}},
            InvalidArgumentError,
            "observation/state",
        ),
        ({"instruction": "pick up the milk " * 100}, InvalidArgumentError, "instruction"),
    ],
    ids=[
        "no picture",
        "one picture of two",
        "channels first",
        "short state",
        "no state",
        "state is nan",
        "long prompt",
    ],
)
def test_a_bad_observation_fails_alone_and_by_name(
    policy: Pi05Policy, changes: dict[str, Any], kind: type[InvalidArgumentError], field: str
) -> None:
    good, bad = observation(1), observation(2, **changes)
    expected = actions(policy, good)

    first, failure, last = policy.infer([good, bad, good])

    assert type(failure) is kind
    assert failure.field == field
    for output in (first, last):
        assert isinstance(output, PolicyOutput)
        assert np.allclose(output.actions, expected[0], atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"batch_buckets": [1, 2, 4]}, {"batch_buckets": [4], "prefix_batch": 1}, {}],
    ids=["above the largest bucket", "one prefix at a time", "no buckets"],
)
def test_prompts_of_different_lengths_in_one_batch_change_nothing(
    tokenizer_path: Path, policy: Pi05Policy, options: dict[str, Any]
) -> None:
    batch = [
        dataclasses.replace(observation(seed), instruction="go " * (1 + 5 * (seed % 5)))
        for seed in range(7)
    ]
    alone = np.concatenate([actions(policy, item) for item in batch])

    assert np.allclose(actions(tiny_policy(tokenizer_path, **options), *batch), alone, atol=1e-5)


def test_a_batch_of_nothing_but_bad_observations_does_not_run_the_model(
    policy: Pi05Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "_runner", None)

    assert isinstance(policy.infer([observation(images={})])[0], ObservationMismatchError)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_fails_its_row_alone(
    tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    policy = tiny_policy(tokenizer_path)
    runner = Runner.__new__(Runner)
    monkeypatch.setattr(runner, "run", failing_on_row(policy._runner, 1, value), raising=False)
    monkeypatch.setattr(policy, "_runner", runner)

    first, failure, last = policy.infer([observation(seed) for seed in range(3)])

    assert isinstance(first, PolicyOutput)
    assert isinstance(last, PolicyOutput)
    assert isinstance(failure, BadModelOutputError)
    assert failure.value == f"{value} in row 2, column 1"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["gpu", "python", "cpu"],
)
def test_out_of_memory_fails_one_batch_with_a_reason(
    tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    policy = tiny_policy(tokenizer_path)
    host = PolicyHost(policy, "pi05", 0.0, VirtualClock())
    batch = [raw(observation(seed)) for seed in range(2)]
    expected = [answer.body for answer in host.run(batch).answers]

    def out_of_memory(rows: Any) -> RunResult:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(policy._runner, "run", out_of_memory)
        failed = host.run(batch).answers

    for answer in failed:
        told = from_detail(common_pb2.ErrorDetail.FromString(answer.body))
        assert answer.failed
        assert isinstance(told, RetryableError)
        assert "out of memory on a batch of 2" in str(told)
    assert [answer.body for answer in host.run(batch).answers] == expected


def test_another_error_of_the_model_is_not_swallowed(
    tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny_policy(tokenizer_path)

    def broken(rows: Any) -> RunResult:
        raise RuntimeError("kernel launch failed")

    monkeypatch.setattr(policy._runner, "run", broken)

    with pytest.raises(RuntimeError, match="kernel launch failed"):
        policy.infer([observation()])


def raw(item: PolicyInput) -> RawObservation:
    message = policy_pb2.Observation(
        sequence=item.sequence,
        control_step=item.control_step,
        tensors={key: encode_tensor(value) for key, value in item.tensors.items()},
        images={key: encode_image(value) for key, value in item.images.items()},  # type: ignore[arg-type]
    )
    request = policy_pb2.ChunksRequest(observation=message)
    return RawObservation(request.SerializeToString(), item.instruction, item.noise_seed)


def test_the_workers_host_passes_chunks_times_and_single_failures_on(policy: Pi05Policy) -> None:
    host = PolicyHost(policy, "pi05", 0.0, VirtualClock())
    batch = [observation(1), observation(2, instruction="milk " * 300), observation(3)]

    first, failed, last = host.run([raw(item) for item in batch]).answers

    assert [answer.failed for answer in (first, failed, last)] == [False, True, False]
    error = from_detail(common_pb2.ErrorDetail.FromString(failed.body))
    assert isinstance(error, InvalidArgumentError)
    assert error.field == "instruction"
    chunk = decode_tensor(common_pb2.Tensor.FromString(last.body), "actions")
    assert np.allclose(chunk, actions(policy, batch[2])[0], atol=1e-5)
    assert first.vision_s
    assert first.prefill_s
    assert first.denoise_s


def test_a_real_checkpoint_is_used_with_its_statistics(
    tokenizer_path: Path, policy: Pi05Policy, tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    from server.policy.pi05.weight_names import public_name
    from tests.unit.server.policy.pi05.helpers import tiny_model

    weights = {public_name(name): value for name, value in tiny_model().named_parameters()}
    save_file(weights, tmp_path / "model.safetensors")
    stats = {
        "state": {"mean": [0.5] * 8, "std": [2.0] * 8},
        "actions": {"mean": [0.0] * 7, "std": [0.1] * 7},
    }
    (tmp_path / "norm_stats.json").write_text(json.dumps({"norm_stats": stats}))

    loaded = tiny_policy(
        tokenizer_path,
        random_weights=False,
        checkpoint=str(tmp_path),
        stats=str(tmp_path / "norm_stats.json"),
    )

    assert not loaded.spec.stand_in
    state = (observation(1).tensors["observation/state"] - 0.5) / 2.0
    normalised = observation(1, tensors={"observation/state": state})
    random = policy._runner.run([policy._row(normalised)]).actions[0, :, :7]
    assert np.allclose(actions(loaded, observation(1))[0], np.clip(0.1 * random, -1, 1), atol=1e-5)


def test_a_recipe_wider_than_the_model_is_refused(tokenizer_path: Path, tmp_path: Path) -> None:
    from server.policy.pi05 import recipe as module

    shipped = Path(module.__file__).with_name("recipes") / "libero-openpi.json"
    tree = json.loads(shipped.read_text())
    tree["action"] = tree["action"] * 5
    wide = tmp_path / "wide.json"
    wide.write_text(json.dumps(tree))

    with pytest.raises(InvalidArgumentError, match=r"wider than the model's.*got 35"):
        tiny_policy(tokenizer_path, recipe=str(wide))
