"""Observations to the wire of PolicyService, and its chunks back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import common_pb2, policy_pb2
from robot_sdk.chunks import PolicyObservation, PolicyTiming
from robot_sdk.clock import to_ns
from robot_sdk.errors import BadModelOutputError, InvalidArgumentError
from robot_sdk.images import write_image_head
from robot_sdk.spec import PolicySpec
from robot_sdk.tensors import decode_tensor, write_tensor
from robot_sdk.wire import optional

# Tags of the length-delimited fields that are written here, by the rule of the protobuf encoding.
_LENGTH_DELIMITED = 2
_IN_REQUEST = policy_pb2.ChunksRequest.OBSERVATION_FIELD_NUMBER << 3 | _LENGTH_DELIMITED
_IMAGES = policy_pb2.Observation.IMAGES_FIELD_NUMBER << 3 | _LENGTH_DELIMITED
_MAP_KEY = 1 << 3 | _LENGTH_DELIMITED
_MAP_VALUE = 2 << 3 | _LENGTH_DELIMITED
_IMAGE_DATA = common_pb2.Image.DATA_FIELD_NUMBER << 3 | _LENGTH_DELIMITED

_Piece = bytes | memoryview


@dataclass(frozen=True)
class EncodedObservation:
    """An observation ready to be sent.

    Attributes:
        sequence: Its number within the stream.
        request: A serialised ChunksRequest.
    """

    sequence: int
    request: bytes


def encode_observation(
    item: PolicyObservation, keys: Iterable[str], now_s: float
) -> EncodedObservation:
    """The wire form with only the named keys; a key the observation lacks is left out.

    The pictures are most of it. Setting them in a message and serialising that copies each several
    times, into memory that is taken from the system anew; so the message is serialised without
    them, and they are joined to it as the encoding says, with one copy.

    Args:
        item: What to send.
        keys: Names of the tensors and images to send. Nothing else leaves the robot.
        now_s: Time of sending, robot's clock.
    """
    observation = item.observation
    wire = policy_pb2.Observation()
    wire.sequence = item.sequence
    wire.control_step = item.control_step
    wire.robot_captured_ns = to_ns(observation.captured_s)
    wire.robot_sent_ns = to_ns(now_s)
    wire.buffered_steps = item.buffered_steps
    if item.deadline_s is not None:
        wire.deadline_s = item.deadline_s
    if item.trace is not None:
        wire.trace.CopyFrom(item.trace)
    if item.committed_actions is not None:
        write_tensor(wire.committed_actions, item.committed_actions, "committed_actions")
    pictures: list[_Piece] = []
    for key in keys:
        if key in observation.tensors:
            write_tensor(wire.tensors[key], observation.tensors[key], key)
        elif key in observation.images:
            camera = key.rsplit("/", 1)[-1]
            head = common_pb2.Image()
            data = write_image_head(head, observation.images[key], camera, key)
            pictures += _image_entry(key.encode(), head.SerializeToString(), data)
    body = wire.SerializeToString()
    num_bytes = len(body) + sum(map(_num_bytes, pictures))
    return EncodedObservation(
        item.sequence, b"".join((_prefix(_IN_REQUEST, num_bytes), body, *pictures))
    )


def _image_entry(key: bytes, head: bytes, data: _Piece) -> list[_Piece]:
    """One entry of Observation.images: `head` is the picture's message without its data."""
    data_prefix = _prefix(_IMAGE_DATA, _num_bytes(data))
    image_bytes = len(head) + len(data_prefix) + _num_bytes(data)
    entry = b"".join(
        (_prefix(_MAP_KEY, len(key)), key, _prefix(_MAP_VALUE, image_bytes), head, data_prefix)
    )
    return [_prefix(_IMAGES, len(entry) + _num_bytes(data)), entry, data]


def _prefix(tag: int, num_bytes: int) -> bytes:
    """Tag and length of a length-delimited field. All tags used here are below 128."""
    prefix = bytearray((tag,))
    while num_bytes > 0x7F:
        prefix.append(num_bytes & 0x7F | 0x80)
        num_bytes >>= 7
    prefix.append(num_bytes)
    return bytes(prefix)


def _num_bytes(piece: _Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece.nbytes


def decode_actions(chunk: policy_pb2.ActionChunk, spec: PolicySpec) -> NDArray[np.float32]:
    """The rows of a chunk: (spec.horizon, spec.action_dim) float32, finite, writable.

    Raises:
        BadModelOutputError: Anything else. Nothing of such a chunk may be executed.
    """
    try:
        actions = decode_tensor(chunk.actions, "actions")
    except InvalidArgumentError as error:
        raise BadModelOutputError(f"the chunk cannot be read: {error}", field="actions") from error
    wanted = (spec.horizon, spec.action_dim)
    if actions.dtype != np.float32 or actions.shape != wanted:
        raise BadModelOutputError(
            f"policy {spec.name!r} sent a chunk of the wrong form",
            field="actions",
            value=f"{actions.dtype} {actions.shape}",
            allowed=[f"float32 {wanted}"],
        )
    if not np.isfinite(actions).all():
        raise BadModelOutputError(
            f"policy {spec.name!r} sent a chunk with NaN or infinity", field="actions"
        )
    return actions.astype(np.float32, copy=False)


def decode_policy_timing(wire: policy_pb2.PolicyTiming) -> PolicyTiming:
    """The plain value; absent becomes None."""
    return PolicyTiming(
        server_received_ns=wire.server_received_ns or None,
        server_done_ns=wire.server_done_ns or None,
        batch_wait_s=optional(wire, "batch_wait_s"),
        preprocess_s=optional(wire, "preprocess_s"),
        vision_s=optional(wire, "vision_s"),
        prefill_s=optional(wire, "prefill_s"),
        denoise_s=optional(wire, "denoise_s"),
        infer_s=optional(wire, "infer_s"),
        batch_size=wire.batch_size or None,
        modelled_delay_s=optional(wire, "modelled_delay_s"),
        worker=wire.worker,
    )
