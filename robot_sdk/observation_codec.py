"""Observations to the wire of PolicyService, and its chunks back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.chunks import PolicyObservation, PolicyTiming
from robot_sdk.clock import to_ns
from robot_sdk.errors import BadModelOutputError, InvalidArgumentError
from robot_sdk.images import write_image
from robot_sdk.spec import PolicySpec
from robot_sdk.tensors import decode_tensor, write_tensor
from robot_sdk.wire import optional


def encode_observation(
    item: PolicyObservation, keys: Iterable[str], now_s: float
) -> policy_pb2.ChunksRequest:
    """The wire form with only the named keys; a key the observation lacks is left out.

    Args:
        item: What to send.
        keys: Names of the tensors and images to send. Nothing else leaves the robot.
        now_s: Time of sending, robot's clock.
    """
    observation = item.observation
    request = policy_pb2.ChunksRequest()
    wire = request.observation
    wire.sequence = item.sequence
    wire.control_step = item.control_step
    wire.robot_captured_ns = to_ns(observation.captured_s)
    wire.robot_sent_ns = to_ns(now_s)
    wire.buffered_steps = item.buffered_steps
    if item.deadline_s is not None:
        wire.deadline_s = item.deadline_s
    if item.trace is not None:
        wire.trace.CopyFrom(item.trace)
    for key in keys:
        if key in observation.tensors:
            write_tensor(wire.tensors[key], observation.tensors[key], key)
        elif key in observation.images:
            camera = key.rsplit("/", 1)[-1]
            write_image(wire.images[key], observation.images[key], camera, key)
    return request


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
