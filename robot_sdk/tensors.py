"""numpy arrays to and from the wire's Tensor.

On the way in any layout is normalised to C order, little endian; what has no wire form is refused
by name. On the way out nothing is believed: the byte count is compared with dtype and shape before
any memory is taken, so a lying message costs nothing. One copy out (into the message), one copy in
(so that the result is writable and owns its memory).
"""

from __future__ import annotations

import sys
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robot_sdk.api.v1 import common_pb2
from robot_sdk.errors import InvalidArgumentError

#: Wire types by numpy name.
DTYPES: MappingProxyType[str, int] = MappingProxyType(
    {
        "bool": common_pb2.D_TYPE_BOOL,
        "uint8": common_pb2.D_TYPE_UINT8,
        "int8": common_pb2.D_TYPE_INT8,
        "uint16": common_pb2.D_TYPE_UINT16,
        "int16": common_pb2.D_TYPE_INT16,
        "uint32": common_pb2.D_TYPE_UINT32,
        "int32": common_pb2.D_TYPE_INT32,
        "uint64": common_pb2.D_TYPE_UINT64,
        "int64": common_pb2.D_TYPE_INT64,
        "float16": common_pb2.D_TYPE_FLOAT16,
        "float32": common_pb2.D_TYPE_FLOAT32,
        "float64": common_pb2.D_TYPE_FLOAT64,
    }
)
_NAMES = {value: name for name, value in DTYPES.items()}
_LITTLE_ENDIAN = {value: np.dtype(name).newbyteorder("<") for name, value in DTYPES.items()}
# numpy refuses more dimensions than this (64 since numpy 2, 32 before).
_MAX_DIMENSIONS = 32


def encode_tensor(array: ArrayLike, name: str = "tensor") -> common_pb2.Tensor:
    """The wire form of `array`; see `write_tensor`."""
    tensor = common_pb2.Tensor()
    write_tensor(tensor, array, name)
    return tensor


def write_tensor(into: common_pb2.Tensor, array: ArrayLike, name: str = "tensor") -> None:
    """Fill `into`, an empty message, with `array`: any shape, strides, order and endianness.

    Filling in place spares the copy that assigning a message to a field makes.

    Args:
        into: The message to fill.
        array: A numpy array or scalar of a dtype in `DTYPES`.
        name: What to call it in an error, for example "observation/state".

    Raises:
        InvalidArgumentError: The dtype has no wire form (object, text, complex, records, times).
    """
    values = np.asarray(array)
    dtype = values.dtype
    code = DTYPES.get(dtype.name) if dtype.fields is None else None
    if code is None:
        raise InvalidArgumentError(
            f"{name} has a dtype that cannot travel",
            field=name,
            value=dtype,
            allowed=DTYPES,
            hint="convert it with array.astype(...)",
        )
    if values.ndim > _MAX_DIMENSIONS:
        raise InvalidArgumentError(
            f"{name} has too many dimensions",
            field=name,
            value=values.ndim,
            allowed=[f"at most {_MAX_DIMENSIONS}"],
        )
    wire_dtype = _LITTLE_ENDIAN[code]
    if dtype != wire_dtype:
        values = values.astype(wire_dtype)
    into.dtype = code  # type: ignore[assignment]
    into.shape.extend(values.shape)
    # tobytes alone walks a strided array one element at a time.
    into.data = np.ascontiguousarray(values).tobytes()


def decode_tensor(tensor: common_pb2.Tensor, name: str = "tensor") -> NDArray[np.generic]:
    """The array that was sent: writable, C order, native endianness, same dtype and shape.

    Raises:
        InvalidArgumentError: Unknown dtype, or the bytes do not fit dtype and shape.
    """
    dtype = _LITTLE_ENDIAN.get(tensor.dtype)
    if dtype is None:
        raise InvalidArgumentError(
            f"{name} has an unknown dtype", field=name, value=tensor.dtype, allowed=DTYPES
        )
    shape = tuple(tensor.shape)
    if len(shape) > _MAX_DIMENSIONS:
        raise InvalidArgumentError(
            f"{name} has too many dimensions",
            field=name,
            value=len(shape),
            allowed=[f"at most {_MAX_DIMENSIONS}"],
        )
    num_bytes = dtype.itemsize
    for length in shape:
        num_bytes *= length
    data = tensor.data  # every reading of the field is a copy
    # numpy also refuses an empty array whose other dimensions overflow, so each is bounded too.
    if num_bytes != len(data) or any(length > sys.maxsize for length in shape):
        raise _wrong_size(name, _NAMES[tensor.dtype], shape, num_bytes, len(data))
    try:
        array = np.frombuffer(data, dtype=dtype).reshape(shape)
    except ValueError:
        raise _wrong_size(name, _NAMES[tensor.dtype], shape, num_bytes, len(data)) from None
    # A bool that is neither 0 nor 1 is undefined behaviour in numpy.
    if tensor.dtype == common_pb2.D_TYPE_BOOL:
        return np.not_equal(array.view(np.uint8), 0, out=np.empty(shape, dtype=np.bool_))
    return array.astype(dtype.newbyteorder("="), order="C", copy=True)


def _wrong_size(
    name: str, dtype: str, shape: tuple[int, ...], expected_bytes: int, found_bytes: int
) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} has {found_bytes} bytes, but dtype {dtype} and shape {list(shape)} need "
        f"{expected_bytes}",
        field=name,
        value=found_bytes,
        allowed=[expected_bytes],
    )
