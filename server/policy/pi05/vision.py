"""The picture tower: SigLIP (arXiv 2303.15343) without its pooling head, and the projection."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from server.policy.pi05.config import VisionConfig
from server.policy.pi05.layers import EPSILON, attend


class VisionTower(nn.Module):
    """Pictures to tokens of the language model's width.

    Args:
        config: Sizes of the tower.
        out_width: Width of the tokens it returns.
    """

    def __init__(self, config: VisionConfig, out_width: int) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(3, config.width, config.patch_px, stride=config.patch_px)
        self.position_embedding = nn.Embedding(config.num_patches, config.width)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.depth))
        self.post_layernorm = nn.LayerNorm(config.width, eps=EPSILON)
        self.projector = nn.Linear(config.width, out_width)

    def forward(self, pictures: Tensor) -> Tensor:
        """One sequence per picture.

        Args:
            pictures: (P, 3, image_px, image_px), values in [-1, 1].

        Returns:
            (P, num_patches, out_width). Not scaled: the language model's factor belongs to words.
        """
        patches = self.patch_embedding(pictures.to(self.patch_embedding.weight.dtype))
        x = patches.flatten(2).transpose(1, 2) + self.position_embedding.weight
        for layer in self.layers:
            x = layer(x)
        projected: Tensor = self.projector(self.post_layernorm(x))
        return projected


class _Layer(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self._num_heads = config.num_heads
        self.layer_norm1 = nn.LayerNorm(config.width, eps=EPSILON)
        self.q_proj = nn.Linear(config.width, config.width)
        self.k_proj = nn.Linear(config.width, config.width)
        self.v_proj = nn.Linear(config.width, config.width)
        self.out_proj = nn.Linear(config.width, config.width)
        self.layer_norm2 = nn.LayerNorm(config.width, eps=EPSILON)
        self.fc1 = nn.Linear(config.width, config.mlp_width)
        self.fc2 = nn.Linear(config.mlp_width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer_norm1(x)
        query, key, value = (self._split(f(y)) for f in (self.q_proj, self.k_proj, self.v_proj))
        x = x + self.out_proj(attend(query, key, value, key_mask=None))
        hidden = F.gelu(self.fc1(self.layer_norm2(x)), approximate="tanh")
        out: Tensor = x + self.fc2(hidden)
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self._num_heads, -1)).transpose(1, 2)
