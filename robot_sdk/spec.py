"""What a policy expects and promises: PolicySpec as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ActionMode = Literal["delta", "absolute"]


@dataclass(frozen=True)
class ActionDimension:
    """One number of an action. Limits are inclusive and in `unit`; None is unlimited."""

    name: str
    unit: str
    frame: str
    mode: ActionMode
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class ActionGroup:
    """Dimensions [start, start + size) that belong together, for example an arm."""

    name: str
    start: int
    size: int


@dataclass(frozen=True)
class ObservationKey:
    """One named input of a policy.

    Attributes:
        shape: Exact shape; 0 means any length. Images: (height, width).
        dtype: numpy name, for example "float32". Images: "uint8".
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_image: bool = False
    required: bool = True
    privileged: bool = False
    unit: str = ""
    description: str = ""


@dataclass(frozen=True)
class PolicySpec:
    """Everything a robot must know before it executes what a policy says.

    Attributes:
        control_hz: Rate the rows are meant for, per second.
        horizon: Rows in a chunk.
        executed_steps: Rows to execute before the next chunk should take over, 1..horizon.
        stand_in: True when this is not the production model; `note` says what it stands for.
    """

    name: str
    version: str
    action_dimensions: tuple[ActionDimension, ...]
    control_hz: float
    horizon: int
    executed_steps: int
    observation_keys: tuple[ObservationKey, ...]
    action_groups: tuple[ActionGroup, ...] = ()
    embodiments: tuple[str, ...] = ()
    supports_committed_actions: bool = False
    stand_in: bool = False
    note: str = ""

    @property
    def action_dim(self) -> int:
        """Width of an action."""
        return len(self.action_dimensions)

    def lower_limits(self) -> NDArray[np.float32]:
        """Shape (action_dim,); -inf where unlimited."""
        values = (-np.inf if d.minimum is None else d.minimum for d in self.action_dimensions)
        return np.fromiter(values, dtype=np.float32, count=self.action_dim)

    def upper_limits(self) -> NDArray[np.float32]:
        """Shape (action_dim,); +inf where unlimited."""
        values = (np.inf if d.maximum is None else d.maximum for d in self.action_dimensions)
        return np.fromiter(values, dtype=np.float32, count=self.action_dim)
