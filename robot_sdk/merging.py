"""How a new chunk is joined to the rows that an older one left over.

Each policy is a pure function of the rows by control step. `old` holds rows that are still to be
executed, `new` those of the newer chunk; both map a step to a `Row`. Rows of steps that are already
executed are in neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MergeName = Literal["replace", "linear_blend", "temporal_ensemble"]

#: m of the weights exp(-m * i) of temporal ensembling, where i = 0 is the oldest prediction of a
#: step. The value that ACT uses (Zhao et al., arXiv 2304.13705, section IV and its code). A small m
#: takes newer predictions in faster; here two predictions of a step weigh 0.502 and 0.498.
ENSEMBLE_DECAY = 0.01


@dataclass(frozen=True)
class Row:
    """The action of one step.

    Attributes:
        value: Shape (action_dim,), float64, so that averaging does not lose float32 bits.
        num_predictions: How many chunks have gone into it.
    """

    value: NDArray[np.float64]
    num_predictions: int = 1


Rows = Mapping[int, Row]
MergeFunction = Callable[[Rows, Rows], dict[int, Row]]


def replace(old: Rows, new: Rows) -> dict[int, Row]:
    """The new chunk decides from its first step on.

    Old rows before that step stay; old rows after the new chunk's end go, since they answer an
    older observation.
    """
    first_step = min(new)
    return {step: row for step, row in old.items() if step < first_step} | dict(new)


def linear_blend(old: Rows, new: Rows) -> dict[int, Row]:
    """Slide from the old chunk to the new one over the steps that both have.

    Of n steps that both have, the j-th (from 0) becomes (1 - w) * old + w * new with
    w = (j + 1) / (n + 1), so that neither the first nor the last blended row jumps. A step that
    only one chunk has gets that chunk's row as it is. All dimensions are averaged; for a policy
    with an on/off dimension that must not pass through values in between, use `replace`.
    """
    both = sorted(old.keys() & new.keys())
    merged = dict(old) | dict(new)
    for index, step in enumerate(both):
        weight = (index + 1) / (len(both) + 1)
        # old + w * (new - old): equal rows stay bit-equal, which (1 - w) * a + w * a does not give.
        value = old[step].value + weight * (new[step].value - old[step].value)
        merged[step] = Row(value, old[step].num_predictions + 1)
    return merged


def temporal_ensemble(old: Rows, new: Rows) -> dict[int, Row]:
    """Average all predictions made for a step, as ACT does (arXiv 2304.13705).

    The i-th prediction of a step, counted from the oldest, has weight exp(-ENSEMBLE_DECAY * i),
    normalised over the predictions. A step that only one chunk has keeps that row.
    """
    merged = dict(old) | dict(new)
    for step in old.keys() & new.keys():
        count = old[step].num_predictions
        weight = math.exp(-ENSEMBLE_DECAY * count)
        total_before = sum(math.exp(-ENSEMBLE_DECAY * i) for i in range(count))
        share = weight / (total_before + weight)
        value = old[step].value + share * (new[step].value - old[step].value)
        merged[step] = Row(value, count + 1)
    return merged


MERGE_FUNCTIONS: Mapping[MergeName, MergeFunction] = {
    "replace": replace,
    "linear_blend": linear_blend,
    "temporal_ensemble": temporal_ensemble,
}
