"""Weights from a public checkpoint (safetensors). Every one of them, or a refusal that names it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from robot_sdk.errors import InvalidArgumentError
from server.policy.pi05.config import Pi05Config
from server.policy.pi05.model import Pi05Model
from server.policy.pi05.weight_names import (
    EMBEDDING,
    normal_unused_name,
    our_name,
    public_name,
    shorten,
    unused_shapes,
)

_FILE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
#: Number formats that weights may have, as safetensors calls them. Whole numbers and 8-bit formats
#: need scales that π0.5's layers know nothing of.
_FORMATS = ("F64", "F32", "F16", "BF16")


def load_model(
    path: Path, config: Pi05Config, device: torch.device, dtype: torch.dtype
) -> Pi05Model:
    """The model with the weights of a checkpoint.

    Args:
        path: A `.safetensors` file, or a folder with `model.safetensors` or its index of parts.
        config: Sizes that the weights must have.
        device: Where to put them.
        dtype: What to store the big matrices as, whatever the file has.

    Raises:
        InvalidArgumentError: There is no such file, or a weight is missing, unknown, of another
            shape or not finite. The message names the weights as the public checkpoints do.
    """
    model = empty_model(config, device, dtype)
    wanted = {name: tuple(value.shape) for name, value in model.named_parameters()}
    with _open(path) as entries:
        _check(path, entries, wanted, config)
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            for ours, entry in _chosen(entries, wanted).items():
                parameters[ours].copy_(entry.read())
    bad = [name for name, value in model.named_parameters() if not torch.isfinite(value).all()]
    if bad:
        raise _refuse(path, "weights that are not finite numbers", shorten(map(public_name, bad)))
    return model


def empty_model(config: Pi05Config, device: torch.device, dtype: torch.dtype) -> Pi05Model:
    """The model with memory for its weights and nothing in it."""
    with torch.device("meta"):
        model = Pi05Model(config).set_precision(dtype)
    return model.to_empty(device=device).requires_grad_(False).eval()


@dataclass(frozen=True)
class _Entry:
    """One tensor of a file that is open."""

    file: Any
    name: str

    def shape(self) -> tuple[int, ...]:
        return tuple(self.file.get_slice(self.name).get_shape())

    def number_format(self) -> str:
        return str(self.file.get_slice(self.name).get_dtype())

    def read(self) -> torch.Tensor:
        tensor: torch.Tensor = self.file.get_tensor(self.name)
        return tensor


@contextmanager
def _open(path: Path) -> Iterator[dict[str, _Entry]]:
    with ExitStack() as stack:
        entries: dict[str, _Entry] = {}
        for part in _parts(path):
            try:
                file = stack.enter_context(safe_open(part, framework="pt", device="cpu"))
            except (OSError, SafetensorError) as error:
                raise _refuse(part, f"a file that cannot be read ({error})", "") from error
            names: list[str] = file.keys()
            again = [name for name in names if name in entries]
            if again:
                raise _refuse(part, "weights that another part has too", shorten(again))
            entries.update({name: _Entry(file, name) for name in names})
        yield entries


def _parts(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / _FILE).is_file():
        return [path / _FILE]
    index = path / _INDEX
    if not index.is_file():
        raise InvalidArgumentError(
            "there is no checkpoint",
            field="checkpoint",
            value=path,
            allowed=("a .safetensors file", f"a folder with {_FILE} or {_INDEX}"),
        )
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        return [path / name for name in names]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _refuse(index, f"an index that cannot be read ({error!r})", "") from error


def _chosen(
    entries: Mapping[str, _Entry], wanted: Mapping[str, tuple[int, ...]]
) -> dict[str, _Entry]:
    """The entry to read for each weight that a file has."""
    chosen: dict[str, _Entry] = {}
    for name, entry in entries.items():
        ours = our_name(name)
        # Of the embeddings' two names the tied output layer is the second choice.
        if ours in wanted and not (ours == EMBEDDING and ours in chosen and "lm_head" in name):
            chosen[ours] = entry
    return chosen


def _told_twice(entries: Mapping[str, _Entry]) -> list[str]:
    """Weights that are there by the names of both projects, tied embeddings aside."""
    ours = Counter(our_name(name) for name in entries if "lm_head" not in name)
    return sorted(public_name(name) for name, count in ours.items() if count > 1)


def _check(
    path: Path,
    entries: Mapping[str, _Entry],
    wanted: Mapping[str, tuple[int, ...]],
    config: Pi05Config,
) -> None:
    unused = unused_shapes(config)
    problems = []
    missing = wanted.keys() - _chosen(entries, wanted).keys()
    if missing:
        problems.append(f"missing: {shorten(map(public_name, missing))}")
    extra = [
        name
        for name in entries
        if our_name(name) not in wanted and normal_unused_name(name) not in unused
    ]
    if extra:
        problems.append(f"unknown: {shorten(extra)}")
    twice = _told_twice(entries)
    if twice:
        problems.append(f"there twice by different names: {shorten(twice)}")
    odd = [
        f"{name} is {entry.number_format()}"
        for name, entry in entries.items()
        if our_name(name) in wanted and entry.number_format() not in _FORMATS
    ]
    if odd:
        problems.append(f"not in one of the formats {', '.join(_FORMATS)}: {shorten(odd)}")
    mismatched = []
    for name, entry in entries.items():
        expected = wanted.get(our_name(name)) or unused.get(normal_unused_name(name))
        if expected is not None and entry.shape() != expected:
            mismatched.append(f"{name} is {entry.shape()} and should be {expected}")
    if mismatched:
        problems.append(f"of another shape: {shorten(mismatched)}")
    if problems:
        raise _refuse(path, "weights that do not fit", "; ".join(problems))


def _refuse(path: Path, problem: str, detail: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{path.name} is no π0.5 checkpoint of this size, it has {problem}"
        + (f": {detail}" if detail else ""),
        field="checkpoint",
        hint="`size` in the policy's options says which widths are expected",
    )
