"""Between the units of a robot and the model's, about -1 to 1, with the statistics of training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError

Method = Literal["quantile", "mean_std"]
Quantity = Literal["state", "action"]

METHODS: tuple[Method, ...] = ("quantile", "mean_std")
#: What each method reads: where its low mark is, and where its high one.
_FIELDS: Mapping[Method, tuple[str, str]] = {
    "quantile": ("q01", "q99"),
    "mean_std": ("mean", "std"),
}
#: Names of the two quantities in openpi's and lerobot's files.
_NAMES: Mapping[Quantity, tuple[str, ...]] = {
    "state": ("state", "observation.state"),
    "action": ("actions", "action"),
}


@dataclass(frozen=True)
class Normaliser:
    """A line for each dimension: normalised = (value - offset) / scale.

    With `quantile` the first percentile becomes -1 and the 99th becomes 1; with `mean_std` the
    mean becomes 0 and one standard deviation 1.

    Attributes:
        offset, scale: (width,), float64.
    """

    offset: NDArray[np.float64]
    scale: NDArray[np.float64]

    @property
    def width(self) -> int:
        """Dimensions."""
        return len(self.offset)

    def normalise(self, values: NDArray[np.generic]) -> NDArray[np.float32]:
        """(..., width) in a robot's units to the model's, float32."""
        return ((values.astype(np.float64) - self.offset) / self.scale).astype(np.float32)

    def restore(self, values: NDArray[np.generic]) -> NDArray[np.float32]:
        """The way back: (..., width) as the model puts them out, to a robot's units, float32."""
        return (values.astype(np.float64) * self.scale + self.offset).astype(np.float32)


def identity(width: int) -> Normaliser:
    """Changes nothing. For a model with random weights, which has no training to go by."""
    return Normaliser(np.zeros(width), np.ones(width))


def make_normaliser(
    method: Method, low: NDArray[np.float64], high: NDArray[np.float64], epsilon: float
) -> Normaliser:
    """From a method's two marks.

    Args:
        method: What the marks are.
        low: (width,): first percentile, or mean.
        high: (width,): 99th percentile, or standard deviation.
        epsilon: Added to the spread, so that a dimension that never moved does not divide by zero.
    """
    if method == "mean_std":
        return Normaliser(low, high + epsilon)
    half = (high - low + epsilon) / 2.0
    return Normaliser(low + half, half)


def load_normaliser(
    path: Path, quantity: Quantity, method: Method, width: int, epsilon: float
) -> Normaliser:
    """Read one quantity's statistics.

    Args:
        path: openpi's `norm_stats.json`, lerobot's `stats.json`, or the `.safetensors` of a
            normaliser step of lerobot's processor.
        quantity: Which of them.
        method: Which statistics are read.
        width: Dimensions that are used; a file that was padded may have more.
        epsilon: See `make_normaliser`.

    Raises:
        InvalidArgumentError: The file, the quantity or a statistic is missing, too short or not
            finite, by name.
    """
    found = _find(_read(path), quantity, path)
    marks = []
    for field in _FIELDS[method]:
        if field not in found:
            raise _error(
                path,
                f"{quantity} has no {field}, which normalisation by {method} needs",
                sorted(found),
            )
        try:
            values = np.asarray(found[field], dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise _error(
                path, f"{field} of {quantity} holds no numbers ({error})", [f"{width} numbers"]
            ) from error
        if values.ndim != 1 or len(values) < width or not np.isfinite(values[:width]).all():
            raise _error(
                path,
                f"{field} of {quantity} has shape {values.shape} or holds values that are not "
                "finite",
                [f"{width} finite numbers"],
            )
        marks.append(values[:width])
    normaliser = make_normaliser(method, marks[0], marks[1], epsilon)
    if not (normaliser.scale > 0).all():
        # A negative spread would turn a dimension round, and one of zero has no way back.
        raise _error(
            path,
            f"the spread of {quantity} is not above 0 in dimension "
            f"{int(np.argmin(normaliser.scale > 0))}",
            [f"{_FIELDS[method][1]} that gives each dimension a spread"],
        )
    return normaliser


def _find(tree: Mapping[str, Any], quantity: Quantity, path: Path) -> Mapping[str, Any]:
    for name in _NAMES[quantity]:
        if isinstance(tree.get(name), Mapping):
            found: Mapping[str, Any] = tree[name]
            return found
    raise _error(path, f"there are no statistics of the {quantity}", _NAMES[quantity])


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix == ".safetensors":
            return _nest(path)
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _error(path, f"the file cannot be read ({error})") from error
    if isinstance(tree, Mapping):
        inner = tree.get("norm_stats", tree)
        if isinstance(inner, Mapping):
            return inner
    raise _error(path, "the file is no table of statistics")


def _nest(path: Path) -> dict[str, Any]:
    """`observation.state.q01` and so on, by quantity."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        flat = load_file(path)
    except SafetensorError as error:
        raise ValueError(error) from error
    tree: dict[str, dict[str, Any]] = {}
    for name, values in flat.items():
        quantity, _, field = name.rpartition(".")
        tree.setdefault(quantity, {})[field] = values
    return tree


def _error(path: Path, problem: str, allowed: Any = ()) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{path.name} has no statistics that can be used: {problem}",
        field="stats",
        value=path,
        allowed=allowed,
    )
