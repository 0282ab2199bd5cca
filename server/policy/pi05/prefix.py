"""The language model over pictures and prompt. All that is kept of it is its keys and values."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from server.policy.pi05.config import GemmaConfig
from server.policy.pi05.layers import GatedMlp, RmsNorm, SelfAttention, attend, rotary_tables


class Prefix(nn.Module):
    """A Gemma decoder (arXiv 2403.08295) that sees its whole input at once.

    Its output is never used: the action expert looks at the keys and values of every layer. So the
    last layer stops once it has them, and the final normalisation is not there.
    """

    def __init__(self, config: GemmaConfig, vocabulary_size: int) -> None:
        super().__init__()
        self._config = config
        self.embed_tokens = nn.Embedding(vocabulary_size, config.width)
        self.layers = nn.ModuleList(
            _Layer(config, keys_only=index == config.depth - 1) for index in range(config.depth)
        )

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids (B, T) to (B, T, width), times the root of the width as Gemma has it."""
        embedded: Tensor = self.embed_tokens(tokens)
        # Rounded as the embeddings are: that is how the public weights were trained.
        root = torch.tensor(math.sqrt(self._config.width), dtype=embedded.dtype)
        return embedded * root.item()

    def forward(self, x: Tensor, mask: Tensor, out: Tensor) -> None:
        """Write the keys and values of all layers.

        Args:
            x: (B, P, width), pictures first, then words.
            mask: (B, P), True where there is a token. Those that are False take part in nothing.
            out: (depth, 2, B, kv_heads, at least P, head_dim); the first P places are written.
        """
        length = x.shape[1]
        tables = rotary_tables(mask.long().cumsum(dim=1) - 1, self._config.head_dim)
        for index, layer in enumerate(self.layers):
            x = layer(x, mask, tables, out[index, :, :, :, :length])


class _Layer(nn.Module):
    def __init__(self, config: GemmaConfig, keys_only: bool) -> None:
        super().__init__()
        self._keys_only = keys_only
        self.input_layernorm = RmsNorm(config.width)
        self.self_attn = SelfAttention(
            config.width, config.num_heads, config.num_kv_heads, config.head_dim
        )
        if keys_only:
            del self.self_attn.q_proj, self.self_attn.o_proj
            return
        self.post_attention_layernorm = RmsNorm(config.width)
        self.mlp = GatedMlp(config.width, config.mlp_width)

    def forward(
        self, x: Tensor, mask: Tensor, tables: tuple[Tensor, Tensor], out: Tensor
    ) -> Tensor:
        y = self.input_layernorm(x)
        attention = self.self_attn
        key, value = attention.key(y, tables), attention.value(y)
        out[0].copy_(key)
        out[1].copy_(value)
        if self._keys_only:
            return x
        x = x + attention.o_proj(attend(attention.query(y, tables), key, value, mask))
        result: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return result
