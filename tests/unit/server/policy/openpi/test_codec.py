from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from server.policy.openpi.codec import CodecError, decode, encode

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))


def array_marks(**changes):
    marks = {
        b"__ndarray__": True,
        b"data": bytes(8),
        b"dtype": "<f4",
        b"shape": [2],
    }
    marks.update({key.encode(): value for key, value in changes.items()})
    return msgspec.msgpack.encode(marks)


@given(ARRAYS)
def test_a11_arrays_arrive_as_they_were_whatever_their_memory_is_like(array):
    views = [array, np.asfortranarray(array), array.T, array[..., ::-1] if array.ndim else array]

    for view, found in zip(views, decode(encode({"a": views}))["a"]):
        assert found.dtype == view.dtype.newbyteorder("=")
        assert found.shape == view.shape
        assert found.flags.writeable
        np.testing.assert_array_equal(found, view)


def test_scalars_texts_and_nested_maps_arrive():
    message = {"a": np.float32(0.5), "b": np.int64(-3), "c": {"d": [1, "é", None, True]}, "e": b"x"}

    assert decode(encode(message)) == message
    assert type(decode(encode(message))["a"]) is np.float32


def test_names_of_maps_may_come_as_bytes():
    assert decode(msgspec.msgpack.encode({b"actions": 1})) == {"actions": 1}


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([1j]),
        np.zeros(1, [("a", "f4")]),
        np.array(["2020-01-01"], "datetime64[D]"),
        object(),
    ],
)
def test_objects_do_not_travel(value):
    with pytest.raises(CodecError, match="cannot travel"):
        encode({"a": value})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x81\xa1",
        b"\x91" * 5000,
        array_marks(dtype="|O"),
        array_marks(dtype="<U2"),
        array_marks(dtype="<c8"),
        array_marks(dtype="V8"),
        array_marks(dtype="f4,f4"),
        array_marks(dtype="(2,)f4"),
        array_marks(dtype="nonsense"),
        array_marks(dtype="("),
        array_marks(dtype=4),
        array_marks(shape=[3]),
        array_marks(shape=[-2]),
        array_marks(shape=[2.0]),
        array_marks(shape=2),
        array_marks(shape=[1] * 8 + [2]),
        array_marks(shape=[2**62, 0], data=b""),
        array_marks(data="text"),
        msgspec.msgpack.encode({b"__ndarray__": True}),
        msgspec.msgpack.encode({b"__npgeneric__": True, b"dtype": "<f4", b"data": "x"}),
        msgspec.msgpack.encode({b"__npgeneric__": True, b"dtype": "|u1", b"data": 300}),
        msgspec.msgpack.encode({b"__npgeneric__": True, b"dtype": "|O", b"data": 1}),
    ],
)
def test_a_message_that_openpi_would_not_write_is_refused(data):
    with pytest.raises(CodecError):
        decode(data)


@given(st.binary(max_size=60))
def test_no_bytes_do_worse_than_being_refused(data):
    try:
        decode(data)
    except CodecError:
        pass
