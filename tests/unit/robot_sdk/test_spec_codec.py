"""PolicySpec over the wire."""

from __future__ import annotations

import dataclasses

import pytest

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.spec import ActionDimension, ActionGroup, ObservationKey, PolicySpec
from robot_sdk.spec_codec import decode_spec, encode_spec

SPEC = PolicySpec(
    name="two-arms",
    version="3",
    action_dimensions=(
        ActionDimension("x", "m", "world", "delta", -0.05, 0.0),
        ActionDimension("grip", "normalized", "joint", "absolute"),
    ),
    control_hz=20.0,
    horizon=10,
    executed_steps=5,
    observation_keys=(
        ObservationKey("state", "float32", (0, 8), unit="m", description="where it is"),
        ObservationKey("images/a", "uint8", (224, 224), is_image=True, required=False),
        ObservationKey("privileged/p", "float64", (3,), privileged=True),
    ),
    action_groups=(ActionGroup("left", 0, 1), ActionGroup("right", 1, 1)),
    embodiments=("two-arms",),
    supports_committed_actions=True,
    stand_in=True,
    note="stands in",
)


def test_a_spec_round_trips():
    wire = policy_pb2.PolicySpec.FromString(encode_spec(SPEC).SerializeToString())
    assert decode_spec(wire) == SPEC


def test_an_unlimited_dimension_differs_from_a_limit_of_zero():
    decoded = decode_spec(encode_spec(SPEC))
    assert decoded.action_dimensions[0].maximum == 0.0
    assert decoded.action_dimensions[1].maximum is None


def test_what_this_version_does_not_know_is_refused_by_name():
    wire = encode_spec(SPEC)
    wire.action_dimensions[0].mode = 7
    with pytest.raises(InvalidArgumentError, match="'x'"):
        decode_spec(wire)
    wire = encode_spec(SPEC)
    wire.observation_keys[0].dtype = 99
    with pytest.raises(InvalidArgumentError, match="'state'"):
        decode_spec(wire)


def test_a_dtype_without_a_wire_form_is_refused():
    key = ObservationKey("state", "complex64", (1,))
    with pytest.raises(InvalidArgumentError, match="complex64"):
        encode_spec(dataclasses.replace(SPEC, observation_keys=(key,)))
