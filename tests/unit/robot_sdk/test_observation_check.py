"""Does an observation fit a policy?"""

from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.errors import ObservationMismatchError
from robot_sdk.observation import Observation
from robot_sdk.observation_check import ObservationCheck
from robot_sdk.spec import ActionDimension, ObservationKey, PolicySpec

SPEC = PolicySpec(
    name="reach",
    version="1",
    action_dimensions=(ActionDimension("x", "m", "base", "delta"),),
    control_hz=20.0,
    horizon=4,
    executed_steps=2,
    observation_keys=(
        ObservationKey("state", "float32", (0, 2)),
        ObservationKey("images/a", "uint8", (4, 0), is_image=True),
        ObservationKey("extra", "int64", (), required=False),
        ObservationKey("privileged/pose", "float64", (3,), required=False),
    ),
)
KEYS = ("state", "images/a")
GOOD = {"state": np.zeros((5, 2), np.float32)}
PICTURE = {"images/a": np.zeros((4, 9, 3), np.uint8)}


def check(**options):
    return ObservationCheck(SPEC, options.pop("keys", KEYS), allow_privileged=False)


def test_a_zero_in_the_shape_accepts_any_length():
    check().check(Observation(tensors=GOOD, images=PICTURE))


def test_what_is_not_declared_is_neither_checked_nor_named():
    observation = Observation(tensors={**GOOD, "other": np.array(["x"])}, images=PICTURE)
    check().check(observation)
    assert check().names == KEYS


@pytest.mark.parametrize(
    ("tensors", "images", "words"),
    [
        ({}, PICTURE, "no tensor 'state'"),
        (GOOD, {}, "no picture 'images/a'"),
        ({"state": np.zeros((5, 3), np.float32)}, PICTURE, r"state.*\(any, 2\)"),
        ({"state": np.zeros(2, np.float32)}, PICTURE, "wrong shape"),
        ({"state": np.zeros((5, 2))}, PICTURE, "float64.*float32"),
        ({"state": [[0.0, 0.0]]}, PICTURE, "not a numpy array"),
        (GOOD, {"images/a": np.zeros((3, 4, 9), np.uint8)}, "wrong shape"),
        (GOOD, {"images/a": np.zeros((4, 9, 4), np.uint8)}, r"\(4, any, 3\)"),
        (GOOD, {"images/a": np.zeros((4, 9, 3), np.float32)}, "normalise_image"),
        (GOOD, {"images/a": PICTURE}, "not a numpy array"),
    ],
)
def test_a12_a_mismatch_names_the_key_and_what_is_needed(tensors, images, words):
    with pytest.raises(ObservationMismatchError, match=words):
        check().check(Observation(tensors=tensors, images=images))


@pytest.mark.parametrize(
    ("tensors", "images", "words"),
    [
        (
            {**GOOD, **PICTURE},
            {},
            r"no picture 'images/a' in its images \(got none\).*Observation\(images=",
        ),
        (
            {},
            {**GOOD, **PICTURE},
            r"no tensor 'state' in its tensors \(got none\).*Observation\(tensors=",
        ),
    ],
)
def test_a12_a_key_in_the_wrong_part_is_told_where_it_belongs(tensors, images, words):
    with pytest.raises(ObservationMismatchError, match=words):
        check().check(Observation(tensors=tensors, images=images))


def test_a_required_key_that_is_not_declared_is_named():
    with pytest.raises(ObservationMismatchError, match="needs 'images/a'"):
        check(keys=("state",))


def test_a_key_the_policy_does_not_take_is_named():
    with pytest.raises(ObservationMismatchError, match="does not take 'typo'"):
        check(keys=(*KEYS, "typo"))


def test_ground_truth_needs_an_opt_in_even_where_the_spec_forgot_to_mark_it():
    keys = (*KEYS, "privileged/pose")
    with pytest.raises(ObservationMismatchError, match="allow_privileged=True"):
        check(keys=keys)
    assert ObservationCheck(SPEC, keys, allow_privileged=True).names == keys
