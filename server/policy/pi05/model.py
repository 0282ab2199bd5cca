"""π0.5 (arXiv 2504.16054) as one module with its three stages."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from server.policy.pi05.config import Pi05Config
from server.policy.pi05.expert import Expert, Modulation
from server.policy.pi05.flow_time import euler_times
from server.policy.pi05.prefix import Prefix
from server.policy.pi05.sampler import integrate
from server.policy.pi05.vision import VisionTower


class Pi05Model(nn.Module):
    """The network. Each stage reads and writes tensors that the caller owns."""

    def __init__(self, config: Pi05Config) -> None:
        super().__init__()
        self.config = config
        self.vision = VisionTower(config.vision, config.prefix.width)
        self.prefix = Prefix(config.prefix, config.vocabulary_size)
        self.expert = Expert(
            config.expert, config.action_width, config.min_period, config.max_period
        )

    @property
    def dtype(self) -> torch.dtype:
        """What the big matrices are stored and multiplied in."""
        return self.prefix.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.prefix.embed_tokens.weight.device

    def set_precision(self, dtype: torch.dtype) -> Pi05Model:
        """Store the matrices of towers and decoders as `dtype`; the rest stays float32.

        Float32 stay: normalisations, which are computed in it, and what touches actions and flow
        time, where half precision would round the robot's motion.
        """
        for tower in (self.vision, self.prefix, self.expert.layers):
            tower.to(dtype)
        for part in (self.prefix, self.expert):
            for name, module in part.named_modules():
                if "layernorm" in name or name == "norm":
                    module.float()
        return self

    def new_cache(self, batch: int, num_places: int) -> Tensor:
        """Room for keys and values: (depth, 2, batch, kv_heads, num_places, head_dim), zeros."""
        gemma = self.config.prefix
        shape = (gemma.depth, 2, batch, gemma.num_kv_heads, num_places, gemma.head_dim)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def see(self, pictures: Tensor) -> Tensor:
        """Stage 1. (B, cameras, 3, px, px) in [-1, 1] to (B, cameras * patches, width)."""
        tokens: Tensor = self.vision(pictures.flatten(0, 1))
        return tokens.unflatten(0, pictures.shape[:2]).flatten(1, 2)

    def read(self, seen: Tensor, tokens: Tensor, mask: Tensor, cache: Tensor) -> None:
        """Stage 2. Write the prefix into the cache.

        Args:
            seen: What `see` returns.
            tokens: (B, T), token ids of the prompt, padded at the end.
            mask: (B, P), P = cameras * patches + T, True where there is a token.
            cache: Room for B rows and at least P places.
        """
        x = torch.cat((seen, self.prefix.embed(tokens)), dim=1)
        self.prefix(x, mask, cache)

    def modulation(self, num_steps: int) -> Modulation:
        """What the flow times of `num_steps` steps do to the expert. Constant: compute it once."""
        times = torch.tensor(euler_times(num_steps), dtype=torch.float32, device=self.device)
        return self.expert.modulate(times)

    def act(self, noise: Tensor, modulation: Modulation, cache: Tensor, mask: Tensor) -> Tensor:
        """Stage 3. Noise to actions.

        Args:
            noise: (B, H, action_width), float32, standard normal.
            modulation: From `modulation`; says how many steps there are.
            cache: Holds the prefix; its last H places are overwritten.
            mask: (B, S), True for the tokens of the prefix and the last H places.

        Returns:
            Normalised actions, (B, H, action_width), float32.
        """
        tables = self.expert.tables(mask, noise.shape[1])

        def velocity(state: Tensor, step: int) -> Tensor:
            layers, final = modulation.layers[step], modulation.final[step]
            result: Tensor = self.expert(state, layers, final, tables, cache, mask)
            return result

        return integrate(velocity, noise, modulation.num_steps)
