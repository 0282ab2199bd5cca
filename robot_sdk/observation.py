"""What a robot saw at one control step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

#: Keys that hold ground truth start with this. They leave the robot only on opt-in.
PRIVILEGED_PREFIX = "privileged/"
#: Keys that hold camera pictures start with this.
IMAGE_PREFIX = "images/"

_EMPTY: Mapping[str, NDArray[np.generic]] = MappingProxyType({})


@dataclass(frozen=True)
class Observation:
    """One reading of the robot's sensors.

    Attributes:
        tensors: Named arrays of any shape and dtype, for example `observation/state` (8,) float32.
        images: Named pictures, keys starting with `images/`. uint8 (H, W, 3) RGB, top row first.
        captured_s: When it was taken, on the clock that the control loop runs on. Seconds.
        frame_ids: For each camera a number that changes with every new frame. Used to notice a
            camera that has stopped; cameras not listed are not watched.
    """

    tensors: Mapping[str, NDArray[np.generic]] = field(default_factory=lambda: _EMPTY)
    images: Mapping[str, NDArray[np.generic]] = field(default_factory=lambda: _EMPTY)
    captured_s: float = 0.0
    frame_ids: Mapping[str, int] = field(default_factory=dict)
