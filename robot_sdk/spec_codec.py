"""PolicySpec to and from the wire."""

from __future__ import annotations

from robot_sdk.api.v1 import policy_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.spec import ActionDimension, ActionGroup, ActionMode, ObservationKey, PolicySpec
from robot_sdk.tensors import DTYPES

_MODES: dict[ActionMode, int] = {
    "delta": policy_pb2.ACTION_MODE_DELTA,
    "absolute": policy_pb2.ACTION_MODE_ABSOLUTE,
}
_MODE_NAMES: dict[int, ActionMode] = {code: name for name, code in _MODES.items()}
_DTYPE_NAMES = {code: name for name, code in DTYPES.items()}


def encode_spec(spec: PolicySpec) -> policy_pb2.PolicySpec:
    """The wire form.

    Raises:
        InvalidArgumentError: A key's dtype has no wire form.
    """
    return policy_pb2.PolicySpec(
        name=spec.name,
        version=spec.version,
        action_dimensions=[_encode_dimension(dimension) for dimension in spec.action_dimensions],
        action_groups=[
            policy_pb2.ActionGroup(name=group.name, start=group.start, size=group.size)
            for group in spec.action_groups
        ],
        control_hz=spec.control_hz,
        horizon=spec.horizon,
        executed_steps=spec.executed_steps,
        observation_keys=[_encode_key(key) for key in spec.observation_keys],
        embodiments=spec.embodiments,
        supports_committed_actions=spec.supports_committed_actions,
        stand_in=spec.stand_in,
        note=spec.note,
    )


def decode_spec(wire: policy_pb2.PolicySpec) -> PolicySpec:
    """The plain value.

    Raises:
        InvalidArgumentError: An action mode or dtype that this version does not know.
    """
    return PolicySpec(
        name=wire.name,
        version=wire.version,
        action_dimensions=tuple(_decode_dimension(item) for item in wire.action_dimensions),
        control_hz=wire.control_hz,
        horizon=wire.horizon,
        executed_steps=wire.executed_steps,
        observation_keys=tuple(_decode_key(item) for item in wire.observation_keys),
        action_groups=tuple(
            ActionGroup(item.name, item.start, item.size) for item in wire.action_groups
        ),
        embodiments=tuple(wire.embodiments),
        supports_committed_actions=wire.supports_committed_actions,
        stand_in=wire.stand_in,
        note=wire.note,
    )


def _encode_dimension(dimension: ActionDimension) -> policy_pb2.ActionDimension:
    return policy_pb2.ActionDimension(
        name=dimension.name,
        unit=dimension.unit,
        frame=dimension.frame,
        mode=_MODES[dimension.mode],  # type: ignore[arg-type]
        minimum=dimension.minimum,
        maximum=dimension.maximum,
    )


def _decode_dimension(wire: policy_pb2.ActionDimension) -> ActionDimension:
    mode = _MODE_NAMES.get(wire.mode)
    if mode is None:
        raise InvalidArgumentError(
            f"action dimension {wire.name!r} has an unknown mode",
            field="mode",
            value=wire.mode,
            allowed=_MODES,
        )
    return ActionDimension(
        name=wire.name,
        unit=wire.unit,
        frame=wire.frame,
        mode=mode,
        minimum=wire.minimum if wire.HasField("minimum") else None,
        maximum=wire.maximum if wire.HasField("maximum") else None,
    )


def _encode_key(key: ObservationKey) -> policy_pb2.ObservationKey:
    if key.dtype not in DTYPES:
        raise InvalidArgumentError(
            f"observation key {key.name!r} has a dtype that cannot travel",
            field="dtype",
            value=key.dtype,
            allowed=DTYPES,
        )
    return policy_pb2.ObservationKey(
        name=key.name,
        dtype=DTYPES[key.dtype],  # type: ignore[arg-type]
        shape=key.shape,
        is_image=key.is_image,
        required=key.required,
        privileged=key.privileged,
        unit=key.unit,
        description=key.description,
    )


def _decode_key(wire: policy_pb2.ObservationKey) -> ObservationKey:
    dtype = _DTYPE_NAMES.get(wire.dtype)
    if dtype is None:
        raise InvalidArgumentError(
            f"observation key {wire.name!r} has an unknown dtype",
            field="dtype",
            value=wire.dtype,
            allowed=DTYPES,
        )
    return ObservationKey(
        name=wire.name,
        dtype=dtype,
        shape=tuple(wire.shape),
        is_image=wire.is_image,
        required=wire.required,
        privileged=wire.privileged,
        unit=wire.unit,
        description=wire.description,
    )
