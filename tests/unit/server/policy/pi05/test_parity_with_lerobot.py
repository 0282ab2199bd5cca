"""Chunks that lerobot 0.6.1 made with the same weights; tests/parity says how."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from server.policy.pi05.bucket import Shape
from server.policy.pi05.config import GemmaConfig, Pi05Config, VisionConfig
from server.policy.pi05.random_weights import random_model
from server.policy.pi05.runner import Row, Runner

GOLDEN = Path(__file__).with_name("golden.npz")
#: As in tests/parity/pi05_parity.py, which needs lerobot to be imported.
SMALL = Pi05Config(
    vision=VisionConfig(image_px=56, patch_px=14, width=32, depth=3, mlp_width=4304, num_heads=4),
    prefix=GemmaConfig(width=64, depth=4, mlp_width=128, num_heads=8, num_kv_heads=1, head_dim=16),
    expert=GemmaConfig(width=48, depth=4, mlp_width=96, num_heads=8, num_kv_heads=1, head_dim=16),
    vocabulary_size=512,
)


@pytest.mark.parametrize("num_steps", [5, 10])
def test_chunks_equal_those_of_lerobot(num_steps: int) -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {name: file[name] for name in file.files}
    pictures, tokens, noise = golden["pictures"], golden["tokens"], golden["noise"]
    lengths = golden["mask"].sum(axis=1)
    model = random_model(SMALL, torch.device("cpu"), torch.float32, int(golden["seed"]))
    runner = Runner(
        model,
        Shape(pictures.shape[1], tokens.shape[1], noise.shape[1]),
        rotate_180=(False, False),
        antialias=False,
        num_steps=num_steps,
    )

    result = runner.run(
        [
            Row(tuple(views), [int(t) for t in ids[:length]], drawn)
            for views, ids, length, drawn in zip(pictures, tokens, lengths, noise)
        ]
    )

    expected = golden[f"chunk_{num_steps}"]
    assert np.abs(expected).max() > 1.0
    assert np.abs(result.actions - expected).max() <= 1e-4
