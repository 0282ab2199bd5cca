"""Weights from a seed, the same on every machine: for tests, comparisons and timing only.

Each weight has a generator of its own, seeded with the seed and the name of the weight in a public
checkpoint, so that another program can make the same ones one by one.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch
from numpy.typing import NDArray

from server.policy.pi05.checkpoint import empty_model
from server.policy.pi05.config import Pi05Config
from server.policy.pi05.model import Pi05Model
from server.policy.pi05.weight_names import public_name

#: Spread of vectors: biases, gains of normalisations.
_VECTOR_STD = 0.05


def draw_weight(name: str, shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """One weight, float32, normal around zero.

    Matrices are spread by the inverse root of their inputs, embeddings so that a scaled word has
    the size of a picture token, vectors a little. Nothing is zero, so that a comparison of two
    implementations sees every weight.

    Args:
        name: Its name in a public checkpoint, without the leading `model.` of lerobot's.
        shape: Its shape.
        seed: Of all weights together, 0 or more.
    """
    generator = np.random.default_rng((seed, zlib.crc32(name.encode())))
    if len(shape) == 1:
        std = _VECTOR_STD
    else:
        std = 1.0 / math.sqrt(math.prod(shape[1:]))
    return generator.standard_normal(shape, dtype=np.float32) * np.float32(std)


def random_model(
    config: Pi05Config, device: torch.device, dtype: torch.dtype, seed: int
) -> Pi05Model:
    """A model that knows nothing. The public size takes about a minute."""
    model = empty_model(config, device, dtype)
    with torch.no_grad():
        for name, value in model.named_parameters():
            drawn = draw_weight(public_name(name), tuple(value.shape), seed)
            value.copy_(torch.from_numpy(drawn))
    return model
