"""openpi's messages: MessagePack with arrays as marked maps. No pickle, no objects.

An array is `{b"__ndarray__": true, b"data": bytes, b"dtype": text, b"shape": [lengths]}`, a numpy
scalar `{b"__npgeneric__": true, b"data": number, b"dtype": text}`; the names are bytes, as
openpi-client 0.1.2 writes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

#: Truth values, whole numbers and floating point: anything else could hold objects.
_KINDS = "biuf"
_MAX_DIMENSIONS = 8


class CodecError(ValueError):
    """A message is not what openpi writes. The text says what is wrong with it."""


def encode(message: Mapping[str, Any]) -> bytes:
    """A message with arrays in it, in any memory order.

    Raises:
        CodecError: An array of another kind than numbers and truth values, or another object.
    """
    try:
        return msgspec.msgpack.encode(message, enc_hook=_marked)
    except (TypeError, msgspec.MsgspecError) as error:
        raise CodecError(str(error)) from error


def decode(data: bytes) -> Any:
    """What a message holds. Arrays are copies: writable, and native in their byte order.

    Raises:
        CodecError: It is no MessagePack, or an array's marks do not fit together.
    """
    try:
        return _unmarked(msgspec.msgpack.decode(data))
    except (msgspec.MsgspecError, RecursionError, TypeError, UnicodeDecodeError) as error:
        raise CodecError(f"no MessagePack: {error}") from error


def _marked(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in _KINDS:
        raise CodecError(f"an array of dtype {value.dtype} cannot travel")
    if isinstance(value, np.ndarray):
        return {
            b"__ndarray__": True,
            b"data": value.tobytes(),  # C order, whatever the memory's is
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }
    if isinstance(value, np.generic):
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise CodecError(f"a {type(value).__name__} cannot travel")


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if b"__ndarray__" in value:
        return _array(value)
    if b"__npgeneric__" in value:
        return _scalar(value)
    return {_name(key): _unmarked(item) for key, item in value.items()}


def _name(key: Any) -> Any:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else key


def _array(marks: Mapping[bytes, Any]) -> NDArray[np.generic]:
    data, shape = marks.get(b"data"), marks.get(b"shape")
    dtype = _dtype(marks.get(b"dtype"))
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise CodecError(f"an array has the shape {shape!r}")
    if len(shape) > _MAX_DIMENSIONS:
        raise CodecError(f"an array has {len(shape)} dimensions; allowed: {_MAX_DIMENSIONS}")
    expected_bytes = math.prod(shape) * dtype.itemsize
    if not isinstance(data, bytes) or len(data) != expected_bytes:
        found = len(data) if isinstance(data, bytes) else type(data).__name__
        raise CodecError(
            f"an array of {dtype} {tuple(shape)} needs {expected_bytes} bytes, found {found}"
        )
    try:
        array = np.frombuffer(data, dtype) if data else np.zeros(0, dtype)
        return array.reshape(shape).astype(dtype.newbyteorder("="))
    except ValueError as error:
        raise CodecError(f"an array has the shape {shape}: {error}") from error


def _scalar(marks: Mapping[bytes, Any]) -> np.generic:
    dtype, data = _dtype(marks.get(b"dtype")), marks.get(b"data")
    if not isinstance(data, (bool, int, float)):
        raise CodecError(f"a scalar of {dtype} holds a {type(data).__name__}")
    try:
        return dtype.type(data)
    except (ValueError, OverflowError) as error:
        raise CodecError(f"a scalar of {dtype} holds {data!r}") from error


def _dtype(text: Any) -> np.dtype[Any]:
    text = _name(text)
    try:
        dtype = np.dtype(text) if isinstance(text, str) else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.kind not in _KINDS or dtype.shape:
        raise CodecError(f"an array has the dtype {text!r}; allowed: numbers and truth values")
    return dtype
