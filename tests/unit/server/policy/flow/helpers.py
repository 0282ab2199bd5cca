"""A tiny checkpoint with random weights, and inputs for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from server.policy.flow.checkpoint import CheckpointMetadata, expected_shapes
from server.policy.flow.features import (
    APPROACH_HEIGHT,
    CARRY_HEIGHT,
    FEATURE_NAMES,
    FEATURES_VERSION,
    GRIPPER_QVEL,
    PLACE_POS,
    STATE,
    TARGET_POS,
    TARGET_QUAT,
    TARGET_SIZE,
)

METADATA = CheckpointMetadata(
    features_version=FEATURES_VERSION,
    feature_names=FEATURE_NAMES,
    horizon=10,
    hidden_size=16,
    num_blocks=2,
    num_flow_steps=4,
    training_command="none",
    seed=0,
    num_demonstrations=0,
    num_transitions=0,
    num_training_steps=0,
    final_loss=0.0,
)


def random_arrays(metadata: CheckpointMetadata = METADATA) -> dict[str, np.ndarray]:
    """Weights of the right shapes."""
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.normal(0.0, 0.2, shape).astype(np.float32)
        for name, shape in expected_shapes(replace(metadata)).items()
    }
    return {k: np.abs(v) + 0.1 if k.endswith("std") else v for k, v in arrays.items()}


def example_inputs() -> dict[str, np.ndarray]:
    """One observation: the hand 20 cm over a bar that lies at an angle of 0.3 rad."""
    inputs = {
        STATE: [0.0, 0.0, 0.25, np.pi, 0.0, 0.0, 0.039, -0.039],
        GRIPPER_QVEL: [0.01, -0.01],
        TARGET_POS: [0.1, -0.1, 0.02],
        TARGET_QUAT: [0.0, 0.0, np.sin(0.15), np.cos(0.15)],
        TARGET_SIZE: [0.04, 0.08, 0.04],
        APPROACH_HEIGHT: [0.15],
        PLACE_POS: [0.0, 0.25, 0.2],
        CARRY_HEIGHT: [0.28],
    }
    return {name: np.array(value, dtype=np.float32) for name, value in inputs.items()}
