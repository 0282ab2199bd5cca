"""The action expert: a small Gemma decoder whose normalisations are set by the flow time.

The flow time of a step is the same for every robot of a batch, and the steps are known in advance.
So all scales, shifts and gates are computed once per number of steps, not once per step and robot:
that keeps a quarter of the expert's weights out of the denoising loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from server.policy.pi05.config import GemmaConfig
from server.policy.pi05.flow_time import embed_times
from server.policy.pi05.layers import GatedMlp, SelfAttention, attend, normalise_rms, rotary_tables


@dataclass(frozen=True)
class Modulation:
    """Adaptive normalisation for every step.

    Attributes:
        layers: (N, depth, 2, 3, width) float32: step, layer, before attention or before the
            feed-forward part, and scale, shift or gate.
        final: (N, 3, width) float32; its gate is not used.
    """

    layers: Tensor
    final: Tensor

    @property
    def num_steps(self) -> int:
        """N."""
        return len(self.final)


class AdaptiveNorm(nn.Module):
    """Makes scale, shift and gate from a condition. The normalisation itself has no weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, 3 * width)

    def forward(self, condition: Tensor) -> Tensor:
        """(N, width) to (N, 3, width)."""
        made: Tensor = self.dense(condition)
        return made.unflatten(-1, (3, -1))


class Expert(nn.Module):
    """Velocity of a noisy chunk, given what the prefix left behind."""

    def __init__(
        self, config: GemmaConfig, action_width: int, min_period: float, max_period: float
    ) -> None:
        super().__init__()
        self._config = config
        self._periods = (min_period, max_period)
        self.action_in_proj = nn.Linear(action_width, config.width)
        self.time_mlp_in = nn.Linear(config.width, config.width)
        self.time_mlp_out = nn.Linear(config.width, config.width)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.depth))
        self.norm = AdaptiveNorm(config.width)
        self.action_out_proj = nn.Linear(config.width, action_width)

    def modulate(self, times: Tensor) -> Modulation:
        """Everything about the normalisations that depends on the flow time, (N,) float32."""
        embedded = embed_times(times, self._config.width, *self._periods)
        condition = F.silu(self.time_mlp_out(F.silu(self.time_mlp_in(embedded))))
        layers = [
            torch.stack(
                [layer.input_layernorm(condition), layer.post_attention_layernorm(condition)], dim=1
            )
            for layer in self.layers
        ]
        return Modulation(torch.stack(layers, dim=1).float(), self.norm(condition).float())

    def tables(self, mask: Tensor, horizon: int) -> tuple[Tensor, Tensor]:
        """Rotary tables of the rows: they follow the valid tokens of the prefix.

        Args:
            mask: As in `forward`.
            horizon: H.
        """
        num_seen = mask[:, :-horizon].long().sum(dim=1, keepdim=True)
        positions = num_seen + torch.arange(horizon, device=mask.device)
        return rotary_tables(positions, self._config.head_dim)

    def forward(
        self,
        noisy: Tensor,
        layers: Tensor,
        final: Tensor,
        tables: tuple[Tensor, Tensor],
        cache: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """One evaluation of the velocity.

        Args:
            noisy: (B, H, action_width), float32.
            layers: This step's (depth, 2, 3, width) of a `Modulation`.
            final: This step's (3, width).
            tables: From `tables`; the same for every step.
            cache: (depth, 2, B, kv_heads, S, head_dim). The prefix holds the first places; the
                last H are overwritten.
            mask: (B, S), True where a place may be seen: the prefix's tokens and the last H.

        Returns:
            (B, H, action_width), float32.
        """
        x = self.action_in_proj(noisy).to(cache.dtype)
        for index, layer in enumerate(self.layers):
            x = layer(x, layers[index], tables, cache[index], mask)
        scale, shift, _ = final
        velocity: Tensor = self.action_out_proj(normalise_rms(x) * (1.0 + scale) + shift)
        return velocity


class _Layer(nn.Module):
    def __init__(self, config: GemmaConfig) -> None:
        super().__init__()
        self.input_layernorm = AdaptiveNorm(config.width)
        self.self_attn = SelfAttention(
            config.width, config.num_heads, config.num_kv_heads, config.head_dim
        )
        self.post_attention_layernorm = AdaptiveNorm(config.width)
        self.mlp = GatedMlp(config.width, config.mlp_width)

    def forward(
        self,
        x: Tensor,
        modulation: Tensor,
        tables: tuple[Tensor, Tensor],
        cache: Tensor,
        mask: Tensor,
    ) -> Tensor:
        attention, horizon = self.self_attn, x.shape[1]
        scale, shift, gate = modulation[0]
        y = (normalise_rms(x) * (1.0 + scale) + shift).to(x.dtype)
        cache[0, :, :, -horizon:].copy_(attention.key(y, tables))
        cache[1, :, :, -horizon:].copy_(attention.value(y))
        seen = attend(attention.query(y, tables), cache[0], cache[1], mask)
        x = x + attention.o_proj(seen) * gate.to(x.dtype)
        scale, shift, gate = modulation[1]
        y = (normalise_rms(x) * (1.0 + scale) + shift).to(x.dtype)
        result: Tensor = x + self.mlp(y) * gate.to(x.dtype)
        return result
