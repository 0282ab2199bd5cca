from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.errors import BadModelOutputError, InvalidArgumentError, ObservationMismatchError
from robot_sdk.images import encode_image
from robot_sdk.spec import ActionDimension, ActionGroup, ObservationKey, PolicySpec
from robot_sdk.tensors import encode_tensor
from server.policy import checks
from server.policy.checks import check_actions, check_keys, check_spec, decode_observation

SPEC = PolicySpec(
    name="p",
    version="1",
    action_dimensions=(
        ActionDimension("x", "m", "world", "delta", -1.0, 1.0),
        ActionDimension("free", "1", "none", "absolute"),
    ),
    control_hz=20.0,
    horizon=3,
    executed_steps=2,
    observation_keys=(
        ObservationKey("state", "float32", (2,)),
        ObservationKey("extra", "uint8", (0, 3), required=False),
        ObservationKey("images/a", "uint8", (4, 0), is_image=True),
    ),
)


def observation(**changes: object) -> policy_pb2.Observation:
    tensors = {"state": np.zeros(2, np.float32), **changes}
    return policy_pb2.Observation(
        sequence=7,
        control_step=9,
        tensors={k: encode_tensor(v) for k, v in tensors.items() if v is not None},
        images={"images/a": encode_image(np.zeros((4, 6, 3), np.uint8))},
    )


def test_an_observation_becomes_named_arrays() -> None:
    made = decode_observation(observation(extra=np.ones((5, 3), np.uint8)), SPEC, "go", 3)

    assert (made.sequence, made.control_step, made.instruction, made.noise_seed) == (7, 9, "go", 3)
    assert set(made.tensors) == {"state", "extra"}
    assert made.images["images/a"].shape == (4, 6, 3)
    assert made.committed_actions is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"action_dimensions": ()}, "action_dimensions"),
        ({"control_hz": float("nan")}, "control_hz"),
        ({"control_hz": 0.0}, "control_hz"),
        ({"control_hz": 1e-300}, "control_hz"),
        ({"horizon": 0}, "horizon"),
        ({"executed_steps": 4}, "executed_steps"),
        ({"executed_steps": 0}, "executed_steps"),
        ({"observation_keys": (ObservationKey("s", "float32", (-1,)),)}, "observation_keys: s"),
        ({"observation_keys": (ObservationKey("s", "float32", (1,)),) * 2}, "observation_keys"),
        ({"action_groups": (ActionGroup("arm", 1, 2),)}, "action_groups: arm"),
        ({"action_groups": (ActionGroup("arm", -1, 1),)}, "action_groups: arm"),
        *(
            (
                {"action_dimensions": (ActionDimension("x", "m", "world", "delta", *limits),)},
                "action_dimensions: x",
            )
            for limits in ((1.0, -1.0), (0.0, 0.0), (float("nan"), 1.0), (0.0, float("nan")))
        ),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused_by_the_name_of_its_part(
    changes: dict[str, Any], field: str
) -> None:
    check_spec(SPEC)
    with pytest.raises(InvalidArgumentError, match="contradicts itself") as refused:
        check_spec(dataclasses.replace(SPEC, **changes))
    assert refused.value.field == field


def test_keys_that_the_spec_does_not_name_are_left_out() -> None:
    made = decode_observation(observation(other=np.zeros(1)), SPEC, "", None)

    assert set(made.tensors) == {"state"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"state": None}, "state"),
        ({"state": np.zeros(2, np.float64)}, "state"),
        ({"state": np.zeros(3, np.float32)}, "state"),
        ({"extra": np.zeros((5, 4), np.uint8)}, "extra"),
        ({"extra": np.zeros(5, np.uint8)}, "extra"),
    ],
)
def test_a_wrong_observation_names_its_key(changes: dict[str, object], field: str) -> None:
    with pytest.raises(ObservationMismatchError) as caught:
        decode_observation(observation(**changes), SPEC, "", None)
    assert caught.value.field == field
    assert caught.value.allowed


def test_a_robot_that_lacks_a_key_is_refused_before_it_moves() -> None:
    check_keys(SPEC, ["images/a", "state"])
    with pytest.raises(ObservationMismatchError, match="images/a"):
        check_keys(SPEC, ["state", "extra"])


@pytest.mark.parametrize(
    "actions",
    [
        np.zeros((3, 2)),
        np.ones((3, 2), np.int32),
        [[1.0, 1e9], [-1.0, -1e9], [0, 0]],
        np.full((3, 2), 1.000001),
    ],
)
def test_a_good_chunk_is_float32_in_c_order_within_limits(actions: object) -> None:
    chunk = check_actions(actions, SPEC)

    assert chunk.dtype == np.float32
    assert chunk.shape == (3, 2)
    assert chunk.flags["C_CONTIGUOUS"]
    assert np.abs(chunk[:, 0]).max() <= 1.0


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (np.zeros(6), r"shape \(6,\)"),
        (np.zeros((3, 3)), r"shape \(3, 3\)"),
        (np.zeros((2, 2)), r"shape \(2, 2\)"),
        ([[0, 0], [0, 0], [0]], "rows of different lengths"),
        ([np.zeros((16, 2)), np.zeros((8, 2))], "different lengths"),
        (np.full((3, 2), np.nan), "nan in row 0, x"),
        (np.full((3, 2), np.inf), "inf in row 0, x"),
        ([[0, 0], [0, 0], [1.1, 0]], r"1\.1.* in row 2, x.*-1\.0\.\.1\.0 m"),
        (np.full((3, 2), "a"), "dtype"),
        (None, "dtype"),
    ],
)
def test_a14_a_chunk_that_may_not_be_used_says_why(actions: object, words: str) -> None:
    with pytest.raises(BadModelOutputError, match=words):
        check_actions(actions, SPEC)


def test_a_picture_of_a_wrong_size_is_refused_without_being_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decode(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(checks, "decode_picture", decode)
    message = observation()
    message.images["images/a"].height = 13_000

    with pytest.raises(ObservationMismatchError) as caught:
        decode_observation(message, SPEC, "", None)

    assert caught.value.field == "images/a"
