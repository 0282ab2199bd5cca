"""What a configuration can say about a π0.5 policy: the keys of `policies.NAME.options`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robot_sdk.errors import InvalidArgumentError, nearest
from server.policy.pi05.config import PUBLIC, SIZES, Pi05Config
from server.policy.pi05.recipe import load_recipe, shipped_recipes
from server.policy.pi05.tables import build_from_table


@dataclass(frozen=True)
class Pi05Options:
    """Settings of one policy.

    Attributes:
        recipe: Name of a recipe that comes with the project, or a path to one of your own.
        checkpoint: `.safetensors` file, or folder with `model.safetensors` or its index of parts.
        tokenizer: PaliGemma's SentencePiece `.model` file. With random weights it may be left out;
            a prompt is then one token for each of its bytes, a stand-in.
        stats: Statistics of training: openpi's `norm_stats.json`, lerobot's `stats.json` or the
            `.safetensors` of its normaliser.
        size: Widths of the model: "public", "tiny", or a table with the fields of
            `config.Pi05Config` for a model of your own.
        device: As torch names it; empty takes a GPU if there is one.
        dtype: "bfloat16" or "float32"; empty takes bfloat16 on a GPU and float32 elsewhere.
        num_flow_steps: Euler steps; 0 takes the recipe's. Fewer are faster and coarser.
        batch_buckets: Batch sizes with shapes of their own, increasing; a batch runs in the
            smallest that holds it. Empty: 1, 2, 4, 8, 16, 32, 64 on a GPU, every size elsewhere.
        warm_batch: Buckets up to this size are made while loading, larger ones when first needed.
        prefix_batch: Most observations that go through vision and prefix at once.
        cuda_graphs: Record CUDA graphs; does nothing without a GPU.
        compile: Let torch compile the model.
        num_threads: Threads of torch on a CPU. 0: half of the cores that the worker may use, at
            most 8, or OMP_NUM_THREADS if that is set.
        random_weights: Load no checkpoint; every answer is meaningless. For tests and timing only.
        random_seed: Seed of those weights.
    """

    recipe: str
    checkpoint: str = ""
    tokenizer: str = ""
    stats: str = ""
    size: Pi05Config = PUBLIC
    device: str = ""
    dtype: str = ""
    num_flow_steps: int = 0
    batch_buckets: tuple[int, ...] = ()
    warm_batch: int = 16
    prefix_batch: int = 4
    cuda_graphs: bool = True
    compile: bool = False
    num_threads: int = 0
    random_weights: bool = False
    random_seed: int = 0


def parse_options(options: Mapping[str, Any]) -> Pi05Options:
    """Check a table of options. Files are not looked at yet.

    Raises:
        InvalidArgumentError: A key is unknown, missing or wrong, by name.
    """
    fields = {f.name: f for f in dataclasses.fields(Pi05Options)}
    for key in options:
        if key not in fields:
            close = nearest(key, fields, 1)
            raise InvalidArgumentError(
                "a pi05 policy has no such option",
                field=key,
                allowed=sorted(fields),
                hint=f"did you mean {close[0]}?" if close else "",
            )
    if "recipe" not in options:
        raise _wrong("recipe", "is missing", (*shipped_recipes(), "a path to a .json file"))
    values = {key: _typed(key, value, fields[key].default) for key, value in options.items()}
    parsed = Pi05Options(**values)
    _check(parsed)
    return parsed


def _typed(key: str, value: Any, default: Any) -> Any:
    if key == "size":
        return _size(value)
    if key == "batch_buckets":
        if isinstance(value, Sequence) and all(type(size) is int for size in value):
            return tuple(value)
        raise _wrong(key, f"is {value!r}", ("a list of whole numbers",))
    kind = str if default is dataclasses.MISSING else type(default)
    if type(value) is not kind:
        raise _wrong(key, f"is {value!r}", (kind.__name__,))
    return value


def _size(value: Any) -> Pi05Config:
    if isinstance(value, Mapping):
        return build_from_table(Pi05Config, value, "table", "size")
    if not isinstance(value, str) or value not in SIZES:
        raise _wrong("size", f"is {value!r}", (*SIZES, "a table of widths"))
    return SIZES[value]


def _check(options: Pi05Options) -> None:
    buckets = options.batch_buckets
    rules = (
        ("dtype", options.dtype in ("", "bfloat16", "float32"), ("bfloat16", "float32", "empty")),
        ("num_flow_steps", 0 <= options.num_flow_steps <= 1000, ("0 to 1000",)),
        (
            "batch_buckets",
            list(buckets) == sorted(set(buckets)) and all(size >= 1 for size in buckets),
            ("increasing numbers from 1 up",),
        ),
        ("warm_batch", options.warm_batch >= 0, ("0 or more",)),
        ("prefix_batch", options.prefix_batch >= 1, ("1 or more",)),
        ("num_threads", options.num_threads >= 0, ("0 or more",)),
        ("random_seed", options.random_seed >= 0, ("0 or more",)),
    )
    for key, holds, allowed in rules:
        if not holds:
            raise _wrong(key, f"is {getattr(options, key)!r}", allowed)
    load_recipe(options.recipe)
    if options.random_weights and options.checkpoint:
        raise _wrong("random_weights", "is true beside a checkpoint", ("one of the two",))
    if options.random_weights:
        return
    if not options.tokenizer:
        raise _wrong("tokenizer", "is missing", ("path of PaliGemma's SentencePiece .model file",))
    if not options.checkpoint:
        raise _wrong(
            "checkpoint",
            "is missing",
            ("path of the weights",),
            "random weights must be asked for: random_weights = true",
        )
    if not options.stats:
        raise _wrong("stats", "is missing", ("path of the checkpoint's statistics",))


def _wrong(key: str, problem: str, allowed: Sequence[object], hint: str = "") -> Exception:
    return InvalidArgumentError(f"option {key} {problem}", field=key, allowed=allowed, hint=hint)
