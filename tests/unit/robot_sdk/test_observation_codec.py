"""The joined wire form of an observation is the one that protobuf itself would write."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.api.v1 import common_pb2, policy_pb2
from robot_sdk.chunks import PolicyObservation
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.images import write_image
from robot_sdk.observation import Observation
from robot_sdk.observation_codec import encode_observation
from robot_sdk.tensors import decode_tensor, write_tensor

_STATE = np.arange(8, dtype=np.float32)


def _pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def _item(observation: Observation, **fields: object) -> PolicyObservation:
    given_fields: dict = {"sequence": 3, "control_step": 40, "buffered_steps": 5} | fields
    return PolicyObservation(observation=observation, **given_fields)


def _decode(item: PolicyObservation, keys: list[str]) -> policy_pb2.ChunksRequest:
    return policy_pb2.ChunksRequest.FromString(encode_observation(item, keys, 2.0).request)


def _by_protobuf(item: PolicyObservation, keys: list[str]) -> policy_pb2.ChunksRequest:
    request = policy_pb2.ChunksRequest()
    wire = request.observation
    wire.sequence, wire.control_step = item.sequence, item.control_step
    wire.robot_captured_ns, wire.robot_sent_ns = 0, 2_000_000_000
    wire.buffered_steps = item.buffered_steps
    if item.deadline_s is not None:
        wire.deadline_s = item.deadline_s
    if item.trace is not None:
        wire.trace.CopyFrom(item.trace)
    for key in keys:
        if key in item.observation.tensors:
            write_tensor(wire.tensors[key], item.observation.tensors[key], key)
        elif key in item.observation.images:
            image = item.observation.images[key]
            write_image(wire.images[key], image, key.rsplit("/", 1)[-1], key)
    return request


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.tuples(st.integers(4, 90), st.integers(1, 90)), max_size=4),
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
    deadline_s=st.none() | st.floats(0.01, 10.0),
    traced=st.booleans(),
)
def test_the_joined_form_reads_as_the_message_that_protobuf_would_write(
    sizes: list[tuple[int, int]], name: str, deadline_s: float | None, traced: bool
) -> None:
    images = {f"images/{name}{i}": _pixels(*size, seed=i) for i, size in enumerate(sizes)}
    trace = common_pb2.TraceContext(traceparent="00-1-2-01") if traced else None
    item = _item(
        Observation(tensors={"observation/state": _STATE}, images=images),
        deadline_s=deadline_s,
        trace=trace,
    )
    keys = ["observation/state", *images]
    assert _decode(item, keys) == _by_protobuf(item, keys)


@pytest.mark.parametrize("num_bytes", [127, 128, 16383, 16384, 2097151, 2097152])
def test_lengths_are_right_at_the_edges_of_their_encoding(num_bytes: int) -> None:
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03"
    file = png + bytes(num_bytes - len(png))
    item = _item(Observation(images={"images/a": file}))  # type: ignore[dict-item]
    picture = _decode(item, ["images/a"]).observation.images["images/a"]
    assert (picture.height, picture.width, picture.data) == (3, 2, file)


@pytest.mark.parametrize(
    "view",
    [
        lambda p: p[::-1, ::-1],
        lambda p: p[..., ::-1],
        lambda p: p[2:7, 1:4],
        lambda p: np.asfortranarray(p),
        lambda p: np.ascontiguousarray(p.transpose(2, 0, 1)),
    ],
    ids=["rotated", "bgr", "crop", "fortran", "chw"],
)
def test_a11_a_picture_in_any_memory_order_arrives_bit_equal(view: object) -> None:
    picture = view(_pixels(9, 8))  # type: ignore[operator]
    wanted = picture if picture.shape[2] == 3 else picture.transpose(1, 2, 0)
    item = _item(Observation(images={"images/a": picture}))
    found = _decode(item, ["images/a"]).observation.images["images/a"]
    assert (found.height, found.width) == wanted.shape[:2]
    assert found.data == wanted.tobytes()


def test_only_named_keys_leave_the_robot_and_absent_ones_are_left_out() -> None:
    observation = Observation(
        tensors={"observation/state": _STATE, "privileged/pose": _STATE},
        images={"images/a": _pixels(2, 2), "images/b": _pixels(2, 2)},
    )
    found = _decode(_item(observation), ["observation/state", "images/b", "images/c"]).observation
    assert set(found.tensors) == {"observation/state"}
    assert set(found.images) == {"images/b"}


def test_the_sequence_is_known_without_reading_the_bytes() -> None:
    assert encode_observation(_item(Observation(), sequence=17), [], 0.0).sequence == 17


def test_a_picture_that_cannot_travel_is_refused_by_name() -> None:
    item = _item(Observation(images={"images/a": np.zeros((4, 4, 4), np.uint8)}))
    with pytest.raises(InvalidArgumentError, match="images/a"):
        encode_observation(item, ["images/a"], 0.0)


def test_committed_actions_travel_bit_equal_and_are_absent_without_any() -> None:
    rows = np.random.default_rng(1).normal(size=(3, 7)).astype(np.float32)
    item = _item(
        Observation(tensors={"observation/state": _STATE}), committed_actions=rows[:, ::-1]
    )
    wire = _decode(item, ["observation/state"]).observation
    assert np.array_equal(decode_tensor(wire.committed_actions, "rows"), rows[:, ::-1])
    bare = _decode(_item(Observation(tensors={"observation/state": _STATE})), ["observation/state"])
    assert not bare.observation.HasField("committed_actions")
