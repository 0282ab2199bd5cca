"""The arithmetic that the parts of the model share.

All attention here is bidirectional among valid tokens, so whether a key may be seen depends on the
key alone. That makes one mask of shape (B, S) enough, and lets heads that share keys be folded into
the query axis.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

#: Added to a mean square or a variance before its root is taken; SigLIP and Gemma use the same.
EPSILON = 1e-6
#: Base of Gemma's rotary frequencies (RoFormer, arXiv 2104.09864).
_ROTARY_BASE = 10_000.0


def normalise_rms(x: Tensor) -> Tensor:
    """`x` over its root mean square along the last axis, computed and returned in float32."""
    return F.rms_norm(x.float(), x.shape[-1:], eps=EPSILON)


class RmsNorm(nn.Module):
    """Root mean square normalisation with Gemma's gain, 1 + weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """Same shape and dtype as `x`."""
        return (normalise_rms(x) * (1.0 + self.weight.float())).to(x.dtype)


class GatedMlp(nn.Module):
    """Gemma's feed-forward part: down(gelu(gate(x)) * up(x)), tanh form of gelu."""

    def __init__(self, width: int, mlp_width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, mlp_width, bias=False)
        self.up_proj = nn.Linear(width, mlp_width, bias=False)
        self.down_proj = nn.Linear(mlp_width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to (..., width)."""
        gate = F.gelu(self.gate_proj(x), approximate="tanh")
        result: Tensor = self.down_proj(gate * self.up_proj(x))
        return result


def rotary_tables(positions: Tensor, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines for `rotate`.

    Args:
        positions: (B, T), integers.
        head_dim: Numbers per head.

    Returns:
        Two float32 tensors, (B, 1, T, head_dim / 2).
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device)
    frequencies = 1.0 / (_ROTARY_BASE ** (exponents / head_dim))
    angles = positions.float()[:, None, :, None] * frequencies
    return angles.cos(), angles.sin()


def rotate(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions: number i of a head is paired with number i + head_dim / 2.

    Args:
        x: (B, heads, T, head_dim).
        tables: What `rotary_tables` returns for the same T.
    """
    cos, sin = tables
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


def attend(query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None) -> Tensor:
    """Scaled dot product attention with shared key and value heads.

    Args:
        query: (B, heads, T, head_dim).
        key: (B, kv_heads, S, head_dim).
        value: Like `key`.
        key_mask: (B, S), True where a key may be seen; None is everywhere.

    Returns:
        (B, T, heads * head_dim).
    """
    batch, num_heads, length, head_dim = query.shape
    num_kv_heads = key.shape[1]
    folded = query.reshape(batch, num_kv_heads, num_heads // num_kv_heads * length, head_dim)
    mask = None if key_mask is None else key_mask[:, None, None, :]
    scale = 1.0 / math.sqrt(head_dim)
    out = F.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scale)
    return out.reshape(batch, num_heads, length, head_dim).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """The four projections of a Gemma attention."""

    def __init__(self, width: int, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self._head_dim = head_dim
        self.q_proj = nn.Linear(width, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, num_kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * head_dim, width, bias=False)

    def query(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        """(B, T, width) to rotated (B, heads, T, head_dim)."""
        return rotate(self._heads(self.q_proj(x)), tables)

    def key(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        """(B, T, width) to rotated (B, kv_heads, T, head_dim)."""
        return rotate(self._heads(self.k_proj(x)), tables)

    def value(self, x: Tensor) -> Tensor:
        """(B, T, width) to (B, kv_heads, T, head_dim)."""
        return self._heads(self.v_proj(x))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self._head_dim)).transpose(1, 2)
