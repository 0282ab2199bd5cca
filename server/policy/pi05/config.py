"""Widths and depths of a π0.5 model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from robot_sdk.errors import InvalidArgumentError


@dataclass(frozen=True)
class VisionConfig:
    """A SigLIP picture tower.

    Attributes:
        image_px: Side of the square pictures it takes, pixels.
        patch_px: Side of one patch, pixels; divides `image_px`.
        width: Numbers per token.
        depth: Layers.
        mlp_width: Width inside a layer's feed-forward part.
        num_heads: Attention heads; divide `width`.
    """

    image_px: int
    patch_px: int
    width: int
    depth: int
    mlp_width: int
    num_heads: int

    @property
    def num_patches(self) -> int:
        """Tokens per picture."""
        return (self.image_px // self.patch_px) ** 2


@dataclass(frozen=True)
class GemmaConfig:
    """A Gemma decoder.

    Attributes:
        width: Numbers per token.
        depth: Layers.
        mlp_width: Width inside a layer's feed-forward part.
        num_heads: Query heads; a multiple of `num_kv_heads`.
        num_kv_heads: Key and value heads.
        head_dim: Numbers per head; even.
    """

    width: int
    depth: int
    mlp_width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class Pi05Config:
    """The whole model. Prefix and expert attend together, so their heads and depths are equal.

    Attributes:
        vocabulary_size: Rows of the embedding table.
        action_width: Numbers per action row inside the model; a robot's actions are padded to it.
        min_period, max_period: Shortest and longest period of the flow time's embedding.
    """

    vision: VisionConfig
    prefix: GemmaConfig
    expert: GemmaConfig
    vocabulary_size: int
    action_width: int = 32
    min_period: float = 4e-3
    max_period: float = 4.0

    def __post_init__(self) -> None:
        _check_positive(self)
        _check_together(self)


def _check_together(config: Pi05Config) -> None:
    shared = ("depth", "num_heads", "num_kv_heads", "head_dim")
    for name in shared:
        ours, theirs = getattr(config.prefix, name), getattr(config.expert, name)
        if ours != theirs:
            raise InvalidArgumentError(
                "prefix and expert attend to each other layer by layer and need the same value",
                field=f"expert.{name}",
                value=theirs,
                allowed=(ours,),
            )
    divided = (
        ("vision.patch_px", config.vision.patch_px, "vision.image_px", config.vision.image_px),
        ("vision.num_heads", config.vision.num_heads, "vision.width", config.vision.width),
        (
            "prefix.num_kv_heads",
            config.prefix.num_kv_heads,
            "prefix.num_heads",
            config.prefix.num_heads,
        ),
    )
    for field, value, whole, total in divided:
        if total % value:
            raise InvalidArgumentError(
                "is no divisor",
                field=field,
                value=value,
                allowed=(f"divisors of {whole}, {total}",),
            )
    for field, value in (
        ("prefix.head_dim", config.prefix.head_dim),
        ("expert.width", config.expert.width),
    ):
        if value % 2:
            raise InvalidArgumentError(
                "is odd", field=field, value=value, allowed=("even numbers",)
            )


def _check_positive(config: Pi05Config) -> None:
    for part in ("vision", "prefix", "expert"):
        for name, value in vars(getattr(config, part)).items():
            _check_at_least_1(f"{part}.{name}", value)
    _check_at_least_1("vocabulary_size", config.vocabulary_size)
    _check_at_least_1("action_width", config.action_width)
    if not 0 < config.min_period <= config.max_period < math.inf:
        raise InvalidArgumentError(
            "are no periods",
            field="min_period, max_period",
            value=(config.min_period, config.max_period),
            allowed=("0 < min_period <= max_period",),
        )


def _check_at_least_1(field: str, value: int) -> None:
    if value < 1:
        raise InvalidArgumentError("is too small", field=field, value=value, allowed=("1 or more",))


#: The public model: SigLIP So400m/14 at 224 px, Gemma 2B, an action expert of 300M parameters.
#: Sizes as in the model cards of PaliGemma and the π0 and π0.5 papers (arXiv 2407.07726,
#: 2410.24164, 2504.16054).
PUBLIC = Pi05Config(
    vision=VisionConfig(
        image_px=224, patch_px=14, width=1152, depth=27, mlp_width=4304, num_heads=16
    ),
    prefix=GemmaConfig(
        width=2048, depth=18, mlp_width=16_384, num_heads=8, num_kv_heads=1, head_dim=256
    ),
    expert=GemmaConfig(
        width=1024, depth=18, mlp_width=4096, num_heads=8, num_kv_heads=1, head_dim=256
    ),
    vocabulary_size=257_152,
)

#: The same model with some thousand parameters, for tests.
TINY = Pi05Config(
    vision=VisionConfig(image_px=28, patch_px=14, width=16, depth=2, mlp_width=24, num_heads=2),
    prefix=GemmaConfig(width=32, depth=2, mlp_width=48, num_heads=4, num_kv_heads=1, head_dim=8),
    expert=GemmaConfig(width=16, depth=2, mlp_width=24, num_heads=4, num_kv_heads=1, head_dim=8),
    vocabulary_size=512,
)

#: Sizes that a configuration can name.
SIZES = {"public": PUBLIC, "tiny": TINY}
