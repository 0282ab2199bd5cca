"""Tensors: bit-equal at the far end, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.tensors import DTYPES, decode_tensor, encode_tensor

IMAGE = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)


def through_the_wire(array):
    data = encode_tensor(array).SerializeToString()
    return decode_tensor(common_pb2.Tensor.FromString(data))


@pytest.mark.parametrize(
    "array",
    [
        IMAGE[::-1, ::-1],
        IMAGE[..., ::-1],
        IMAGE[2:7, 3:9],
        np.asfortranarray(IMAGE),
        IMAGE.transpose(2, 0, 1),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.arange(6, dtype=">i8")[::2],
        np.array([True, False, True]),
        np.array(2.5, np.float32),
        np.array(True),
        np.float16(1.5),
        np.zeros((0, 4, 5, 3), np.uint8),
        np.broadcast_to(np.float32(3), (2, 3)),
        np.array([np.nan, np.inf, -0.0, 5e-324]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_a11_any_layout_arrives_bit_equal_and_writable(array):
    result = through_the_wire(array)
    assert result.dtype == array.dtype.newbyteorder("=")
    assert result.shape == array.shape
    assert result.tobytes() == np.asarray(array, result.dtype).tobytes()
    assert result.flags.writeable
    assert result.flags.c_contiguous
    assert result.flags.owndata


def test_a11_a_read_only_array_can_be_sent_and_stays_as_it_was():
    array = np.arange(4.0)
    array.flags.writeable = False
    result = through_the_wire(array)
    result[0] = 9.0
    assert array[0] == 0.0


@given(
    st.sampled_from(sorted(DTYPES)).flatmap(
        lambda name: hnp.arrays(
            np.dtype(name), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
        )
    ),
    st.integers(0, 3),
)
def test_every_array_round_trips(array, view):
    array = np.asarray(array)
    if view == 1:
        array = array.T
    elif view == 2 and array.ndim:
        array = array[::-1]
    elif view == 3:
        array = array.astype(array.dtype.newbyteorder(">"))
    result = through_the_wire(array)
    assert result.shape == array.shape
    assert result.dtype == array.dtype.newbyteorder("=")
    assert result.tobytes() == array.astype(result.dtype).tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([b"bytes"]),
        np.array([1j]),
        np.zeros(2, [("x", "f4"), ("y", "f4")]),
        np.array(["2026-01-01"], "datetime64[s]"),
        np.array([1], "timedelta64[s]"),
        np.array([np.longdouble(1)]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_a_dtype_without_a_wire_form_is_refused_by_name(array):
    with pytest.raises(InvalidArgumentError, match="observation/x") as caught:
        encode_tensor(array, "observation/x")
    assert str(array.dtype) in str(caught.value)
    assert "float32" in caught.value.allowed


def wire(dtype=common_pb2.D_TYPE_FLOAT32, shape=(2,), data=bytes(8)):
    return common_pb2.Tensor(dtype=dtype, shape=shape, data=data)


@pytest.mark.parametrize(
    "tensor",
    [
        wire(data=bytes(7)),
        wire(data=bytes(9)),
        wire(data=b""),
        wire(shape=()),
        wire(shape=(2**63,)),
        wire(shape=(2**32, 2**32), data=b""),  # the product is 0 modulo 2**64
        wire(shape=(2**62, 4), data=b""),
        wire(shape=(0, 2**63), data=b""),
        wire(shape=(0, 2**40, 2**40), data=b""),
        wire(dtype=0),
        wire(dtype=99),
        wire(shape=(1,) * 40, data=bytes(4)),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{list(tensor.shape)[:3]}-{len(tensor.data)}",
)
def test_a_message_that_lies_about_its_size_is_refused(tensor):
    with pytest.raises(InvalidArgumentError, match="obs"):
        decode_tensor(tensor, "obs")


def test_a_bool_that_is_neither_0_nor_1_becomes_true():
    result = decode_tensor(wire(common_pb2.D_TYPE_BOOL, (3,), b"\x00\x01\x07"))
    assert result.tolist() == [False, True, True]
    assert result.view(np.uint8).tolist() == [0, 1, 1]
