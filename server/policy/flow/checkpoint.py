"""Weights of the flow policy on disk: one `.npz` without pickle, checked array by array."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.interpreter import python_command
from server.policy.flow.features import FEATURE_NAMES, FEATURES_VERSION, NUM_FEATURES

#: The checkpoint that comes with the project.
DEFAULT_CHECKPOINT = Path(__file__).with_name("flow_policy.npz")
ACTION_DIM = 7
#: Sines and cosines of the flow time that the network sees.
NUM_TIME_FEATURES = 8

_METADATA = "metadata_json"


@dataclass(frozen=True)
class CheckpointMetadata:
    """How a checkpoint was made and how it must be run.

    Attributes:
        features_version: Version of `server.policy.flow.features` it was trained with.
        feature_names: The features in order.
        horizon: Action rows per chunk.
        hidden_size: Width of the network.
        num_blocks: Residual blocks.
        num_flow_steps: Euler steps from noise to actions.
        training_command: The command line that made it.
        seed: Seed of the training.
        num_demonstrations: Episodes it was trained on.
        num_transitions: Control steps it was trained on.
        num_training_steps: Gradient steps.
        final_loss: Mean loss over the last part of the training.
    """

    features_version: int
    feature_names: tuple[str, ...]
    horizon: int
    hidden_size: int
    num_blocks: int
    num_flow_steps: int
    training_command: str
    seed: int
    num_demonstrations: int
    num_transitions: int
    num_training_steps: int
    final_loss: float


def expected_shapes(metadata: CheckpointMetadata) -> dict[str, tuple[int, ...]]:
    """Name and shape of every array of a checkpoint."""
    hidden, actions = metadata.hidden_size, metadata.horizon * ACTION_DIM
    num_inputs = NUM_FEATURES + actions + NUM_TIME_FEATURES
    shapes: dict[str, tuple[int, ...]] = {
        "feature_mean": (NUM_FEATURES,),
        "feature_std": (NUM_FEATURES,),
        "action_mean": (ACTION_DIM,),
        "action_std": (ACTION_DIM,),
        "input.weight": (hidden, num_inputs),
        "input.bias": (hidden,),
        "output.weight": (actions, hidden),
        "output.bias": (actions,),
    }
    for block in range(metadata.num_blocks):
        shapes[f"blocks.{block}.weight"] = (hidden, hidden)
        shapes[f"blocks.{block}.bias"] = (hidden,)
    return shapes


def save_checkpoint(
    path: Path, arrays: Mapping[str, NDArray[np.generic]], metadata: CheckpointMetadata
) -> None:
    """Write a checkpoint; network weights as float16, statistics as float32."""
    stored: dict[str, NDArray[np.generic]] = {
        name: np.asarray(array, np.float32 if name.endswith(("mean", "std")) else np.float16)
        for name, array in arrays.items()
    }
    _check_arrays(path, stored, metadata)
    text = json.dumps(asdict(metadata), sort_keys=True)
    stored[_METADATA] = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez(path, **stored)  # type: ignore[arg-type]


def load_checkpoint(
    path: Path,
) -> tuple[dict[str, NDArray[np.float32]], CheckpointMetadata]:
    """Read and check a checkpoint; arrays come back as float32.

    Raises:
        InvalidArgumentError: The file is missing or is no checkpoint, was trained with other
            features, or an array is missing, unknown, of another shape, or not finite.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            stored = {name: archive[name] for name in archive.files}
    except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidArgumentError(
            f"cannot read the flow policy's checkpoint: {error}",
            field="checkpoint",
            value=path,
            hint=f"train one with: {python_command()} -m sim.libero.train.train",
        ) from error
    metadata = _read_metadata(path, stored)
    _check_arrays(path, stored, metadata)
    return {name: array.astype(np.float32) for name, array in stored.items()}, metadata


def _read_metadata(path: Path, stored: dict[str, NDArray[np.generic]]) -> CheckpointMetadata:
    try:
        fields = json.loads(stored.pop(_METADATA).tobytes().decode())
        fields["feature_names"] = tuple(fields["feature_names"])
        metadata = CheckpointMetadata(**fields)
    except (KeyError, ValueError, TypeError) as error:
        raise _error(path, f"{_METADATA} is missing or damaged: {error!r}") from error
    if metadata.features_version != FEATURES_VERSION or metadata.feature_names != FEATURE_NAMES:
        raise InvalidArgumentError(
            "the checkpoint was trained with other features",
            field="features_version",
            value=metadata.features_version,
            allowed=[FEATURES_VERSION],
            hint="collect and train again with this version of the code",
        )
    return metadata


def _check_arrays(
    path: Path, stored: Mapping[str, NDArray[np.generic]], metadata: CheckpointMetadata
) -> None:
    shapes = expected_shapes(metadata)
    for name in sorted(shapes.keys() - stored.keys()):
        raise _error(path, f"array {name!r} is missing")
    for name in sorted(stored.keys() - shapes.keys()):
        raise _error(path, f"unknown array {name!r}")
    for name, shape in shapes.items():
        array = stored[name]
        if array.shape != shape:
            raise _error(path, f"array {name!r} has shape {array.shape}, expected {shape}")
        if array.dtype.kind != "f" or not np.all(np.isfinite(array)):
            raise _error(path, f"array {name!r} holds values that are not finite numbers")


def _error(path: Path, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"not a checkpoint of the flow policy: {problem}", field="checkpoint", value=path.name
    )
