"""What goes into a policy and what comes out of it, checked against its spec."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.errors import (
    BadModelOutputError,
    InvalidArgumentError,
    ObservationMismatchError,
    UnsupportedError,
)
from robot_sdk.spec import ObservationKey, PolicySpec
from robot_sdk.tensors import decode_tensor
from server.core.batching import HIGHEST_CONTROL_HZ, LOWEST_CONTROL_HZ
from server.policy.interface import PolicyInput
from server.policy.pictures import decode_picture

#: How far outside a limit float rounding may put an action, relative to the limit.
_LIMIT_TOLERANCE = 1e-5


def check_spec(spec: PolicySpec) -> None:
    """Refuse a policy that contradicts itself while it is loaded, not when the first robot asks.

    Raises:
        InvalidArgumentError: Names the part of the spec, what it says and what is allowed.
    """
    rules: list[tuple[str, object, bool, str]] = [
        ("action_dimensions", "none", bool(spec.action_dimensions), "at least one"),
        (
            "control_hz",
            spec.control_hz,
            LOWEST_CONTROL_HZ <= spec.control_hz <= HIGHEST_CONTROL_HZ,
            f"{LOWEST_CONTROL_HZ:g} to {HIGHEST_CONTROL_HZ:g}",
        ),
        ("horizon", spec.horizon, spec.horizon >= 1, "1 or more"),
        (
            "executed_steps",
            spec.executed_steps,
            1 <= spec.executed_steps <= spec.horizon,
            f"1 to the horizon ({spec.horizon})",
        ),
    ]
    names = [key.name for key in spec.observation_keys]
    rules.append(("observation_keys", names, len(set(names)) == len(names), "each once"))
    for key in spec.observation_keys:
        fits = all(length >= 0 for length in key.shape)
        rules.append(
            (f"observation_keys: {key.name}", key.shape, fits, "lengths of 0 (any) or more")
        )
    for row in spec.action_dimensions:
        lower = -math.inf if row.minimum is None else row.minimum
        upper = math.inf if row.maximum is None else row.maximum
        limits = f"{lower:g}..{upper:g}"
        rules.append((f"action_dimensions: {row.name}", limits, lower < upper, "minimum < maximum"))
    for group in spec.action_groups:
        fits = 0 <= group.start < group.start + group.size <= spec.action_dim
        place = f"start {group.start}, size {group.size}"
        rules.append(
            (f"action_groups: {group.name}", place, fits, f"within {spec.action_dim} dimensions")
        )
    for field, value, holds, allowed in rules:
        if not holds:
            raise InvalidArgumentError(
                f"the specification of policy {spec.name} contradicts itself",
                field=field,
                value=value,
                allowed=(allowed,),
            )


def check_embodiment(spec: PolicySpec, embodiment: str) -> None:
    """Refuse a kind of robot that the policy was not trained for.

    Raises:
        UnsupportedError: The policy names kinds of robots, and this one is not among them.
    """
    if spec.embodiments and embodiment not in spec.embodiments:
        raise UnsupportedError(
            f"policy {spec.name} was not trained for this kind of robot",
            field="embodiment",
            value=embodiment or "none",
            allowed=spec.embodiments,
        )


def check_keys(spec: PolicySpec, offered: Collection[str]) -> None:
    """Refuse a stream whose robot cannot give what the policy needs, before it moves.

    Raises:
        ObservationMismatchError: Names the required keys that are missing.
    """
    missing = [
        key.name for key in spec.observation_keys if key.required and key.name not in offered
    ]
    if missing:
        raise ObservationMismatchError(
            f"policy {spec.name} needs observation keys that the robot does not send: "
            + ", ".join(missing),
            field=missing[0],
            value=", ".join(sorted(offered)) or "no keys",
            allowed=[key.name for key in spec.observation_keys if key.required],
        )


def decode_observation(
    observation: policy_pb2.Observation,
    spec: PolicySpec,
    instruction: str,
    noise_seed: int | None,
) -> PolicyInput:
    """The policy's input. Keys that the spec does not name are ignored.

    Raises:
        ObservationMismatchError: A required key is absent, or one has another dtype or shape.
        InvalidArgumentError: The bytes of one do not fit what it says about itself.
    """
    tensors: dict[str, NDArray[np.generic]] = {}
    images: dict[str, NDArray[np.generic]] = {}
    for key in spec.observation_keys:
        present = observation.images if key.is_image else observation.tensors
        if key.name not in present:
            if key.required:
                raise ObservationMismatchError(
                    f"the observation lacks {key.name}",
                    field=key.name,
                    value=", ".join([*observation.tensors, *observation.images]) or "no keys",
                    allowed=[_expected(key)],
                )
            continue
        if key.is_image:
            image = observation.images[key.name]
            # Before decoding, which may unfold some kilobytes into a gigabyte; decode_picture
            # refuses a picture of another size than its message says.
            _check_shape(key, "uint8", (image.height, image.width))
            images[key.name] = decode_picture(image, key.name)
        else:
            tensor = decode_tensor(observation.tensors[key.name], key.name)
            _check_shape(key, tensor.dtype.name, tensor.shape)
            tensors[key.name] = tensor
    return PolicyInput(
        instruction=instruction,
        tensors=tensors,
        images=images,
        sequence=observation.sequence,
        control_step=observation.control_step,
        noise_seed=noise_seed,
        committed_actions=_committed_actions(observation, spec),
    )


def check_actions(actions: object, spec: PolicySpec) -> NDArray[np.float32]:
    """A policy's chunk as float32 (horizon, action_dim), fit to be sent.

    Raises:
        BadModelOutputError: Ragged, another shape, not numbers, not finite, or out of limits.
    """
    expected = (spec.horizon, spec.action_dim)
    try:
        array = np.asarray(actions)
    except ValueError:
        raise _bad(spec, "rows of different lengths", f"shape {expected}") from None
    if array.dtype.kind not in "fiu":
        raise _bad(spec, f"dtype {array.dtype}", f"numbers of shape {expected}")
    if array.shape != expected:
        raise _bad(spec, f"shape {array.shape}", f"shape {expected}")
    chunk = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(chunk).all():
        row, column = np.argwhere(~np.isfinite(chunk))[0]
        name = spec.action_dimensions[column].name
        raise _bad(spec, f"{chunk[row, column]} in row {row}, {name}", "finite numbers")
    lower, upper = spec.lower_limits(), spec.upper_limits()
    if ((chunk >= lower) & (chunk <= upper)).all():
        return chunk
    slack_low = np.where(np.isfinite(lower), _LIMIT_TOLERANCE * np.maximum(np.abs(lower), 1.0), 0.0)
    slack_high = np.where(
        np.isfinite(upper), _LIMIT_TOLERANCE * np.maximum(np.abs(upper), 1.0), 0.0
    )
    outside = (chunk < lower - slack_low) | (chunk > upper + slack_high)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        dimension = spec.action_dimensions[column]
        raise _bad(
            spec,
            f"{chunk[row, column]} in row {row}, {dimension.name}",
            f"{dimension.minimum}..{dimension.maximum} {dimension.unit}",
        )
    return np.clip(chunk, lower, upper, dtype=np.float32)


def _committed_actions(
    observation: policy_pb2.Observation, spec: PolicySpec
) -> NDArray[np.float32] | None:
    if not observation.HasField("committed_actions"):
        return None
    rows = decode_tensor(observation.committed_actions, "committed_actions")
    if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] != spec.action_dim:
        raise InvalidArgumentError(
            "committed_actions has another dtype or shape",
            field="committed_actions",
            value=f"{rows.dtype} {rows.shape}",
            allowed=(f"float32 (n, {spec.action_dim})",),
        )
    return rows.astype(np.float32, copy=False)


def _check_shape(key: ObservationKey, dtype: str, shape: tuple[int, ...]) -> None:
    fits = len(shape) == len(key.shape) and all(
        wanted in (0, found) for wanted, found in zip(key.shape, shape, strict=True)
    )
    if dtype != key.dtype or not fits:
        raise ObservationMismatchError(
            f"{key.name} has another dtype or shape",
            field=key.name,
            value=f"{dtype} {shape}",
            allowed=[_expected(key)],
        )


def _expected(key: ObservationKey) -> str:
    shape = ", ".join("any" if length == 0 else str(length) for length in key.shape)
    return f"{key.name}: {'image' if key.is_image else key.dtype} ({shape})"


def _bad(spec: PolicySpec, found: str, wanted: str) -> BadModelOutputError:
    return BadModelOutputError(
        f"policy {spec.name} returned actions that may not be used",
        field="actions",
        value=found,
        allowed=(wanted,),
    )
