"""Does an observation fit a policy? Answered before anything is sent."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from robot_sdk.errors import ObservationMismatchError
from robot_sdk.observation import IMAGE_PREFIX, PRIVILEGED_PREFIX, Observation
from robot_sdk.spec import ObservationKey, PolicySpec


class ObservationCheck:
    """The keys that one stream will carry, and the test of each observation against the spec.

    Args:
        spec: The policy.
        observation_keys: Names the robot will send.
        allow_privileged: The robot's author agreed to send ground truth.

    Raises:
        ObservationMismatchError: A required key is not among them, a key is unknown to the policy,
            or a privileged one would be sent without opt-in.
    """

    def __init__(
        self, spec: PolicySpec, observation_keys: Collection[str], *, allow_privileged: bool
    ) -> None:
        known = {key.name: key for key in spec.observation_keys}
        unknown = [name for name in observation_keys if name not in known]
        if unknown:
            raise ObservationMismatchError(
                f"policy {spec.name!r} does not take {', '.join(map(repr, unknown))}",
                field="observation_keys",
                value=unknown[0],
                allowed=known,
            )
        missing = [
            key.name
            for key in spec.observation_keys
            if key.required and key.name not in observation_keys
        ]
        if missing:
            raise ObservationMismatchError(
                f"policy {spec.name!r} needs {', '.join(map(repr, missing))}, which the robot does "
                "not send",
                field="observation_keys",
                value=sorted(observation_keys),
                allowed=known,
            )
        self._keys = tuple(known[name] for name in observation_keys)
        for key in self._keys:
            if (key.privileged or key.name.startswith(PRIVILEGED_PREFIX)) and not allow_privileged:
                raise ObservationMismatchError(
                    f"policy {spec.name!r} wants ground truth ({key.name!r})",
                    field=key.name,
                    hint="pass allow_privileged=True if that is meant; real robots have none",
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Keys that are sent, nothing else is."""
        return tuple(key.name for key in self._keys)

    def check(self, observation: Observation) -> None:
        """Does every declared key have the dtype and shape of the spec?

        Raises:
            ObservationMismatchError: Names the key, what was found and what is needed.
        """
        for key in self._keys:
            if key.is_image:
                self._check_image(key, observation)
            else:
                self._check_tensor(key, observation)

    @staticmethod
    def _check_tensor(key: ObservationKey, observation: Observation) -> None:
        array = observation.tensors.get(key.name)
        if array is None:
            raise _missing(key, observation)
        if not isinstance(array, (np.ndarray, np.generic)):
            raise _not_an_array(key, array)
        if array.dtype.name != key.dtype:
            raise ObservationMismatchError(
                f"{key.name} has the wrong dtype",
                field=key.name,
                value=array.dtype,
                allowed=[key.dtype],
            )
        if not _fits(array.shape, key.shape):
            raise _wrong_shape(key, array.shape, key.shape)

    @staticmethod
    def _check_image(key: ObservationKey, observation: Observation) -> None:
        image = observation.images.get(key.name)
        if image is None:
            raise _missing(key, observation)
        if not isinstance(image, np.ndarray):
            raise _not_an_array(key, image)
        shape = (*key.shape[:2], 3)
        if image.dtype.name != "uint8":
            raise ObservationMismatchError(
                f"{key.name} has the wrong dtype",
                field=key.name,
                value=image.dtype,
                allowed=["uint8"],
                hint="use robot_sdk.images.normalise_image",
            )
        if not _fits(image.shape, shape):
            raise _wrong_shape(key, image.shape, shape)


def _fits(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Equal, where a wanted 0 accepts any length."""
    if len(found) != len(wanted):
        return False
    return all(want in (0, have) for have, want in zip(found, wanted, strict=True))


def _missing(key: ObservationKey, observation: Observation) -> ObservationMismatchError:
    kind, part = ("picture", "images") if key.is_image else ("tensor", "tensors")
    found, misplaced = observation.images, key.name in observation.tensors
    if not key.is_image:
        found, misplaced = observation.tensors, key.name in observation.images
    if misplaced:
        hint = f"it is in the other part; pass it as Observation({part}={{{key.name!r}: ...}})"
    else:
        hint = f"keys of pictures start with {IMAGE_PREFIX!r}" if key.is_image else ""
    return ObservationMismatchError(
        f"the observation has no {kind} {key.name!r} in its {part}",
        field=key.name,
        value=sorted(found) or "none",
        allowed=[key.name],
        hint=hint,
    )


def _not_an_array(key: ObservationKey, found: object) -> ObservationMismatchError:
    return ObservationMismatchError(
        f"{key.name} is not a numpy array",
        field=key.name,
        value=type(found).__name__,
        allowed=["numpy.ndarray"],
    )


def _wrong_shape(
    key: ObservationKey, found: tuple[int, ...], wanted: tuple[int, ...]
) -> ObservationMismatchError:
    text = ", ".join("any" if length == 0 else str(length) for length in wanted)
    return ObservationMismatchError(
        f"{key.name} has the wrong shape", field=key.name, value=found, allowed=[f"({text})"]
    )
