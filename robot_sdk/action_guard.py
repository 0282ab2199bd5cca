"""The last check before the robot moves: no NaN, no wrong width, nothing out of limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robot_sdk.errors import BadModelOutputError, InvalidArgumentError, RobotSdkError
from robot_sdk.spec import PolicySpec

OnLimit = Literal["reject", "clip"]

#: How far a value may lie beyond a limit, in the unit of its dimension, before it counts as out of
#: limits. It covers float32 rounding in a model's denormalisation; the value that is passed on is
#: moved onto the limit.
LIMIT_TOLERANCE = 1e-6

_NUMERIC_KINDS = "fiu"

_Error = TypeVar("_Error", bound=RobotSdkError)


class ActionGuard:
    """Checks actions and chunks against width and limits, and returns clean float32 copies.

    A chunk is accepted or refused as a whole: one bad value, and no row of it may be executed.
    What is returned shares no memory with what was given, and is never read-only.
    """

    def __init__(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        names: Sequence[str] = (),
        num_rows: int | None = None,
        on_limit: OnLimit = "reject",
    ) -> None:
        """Guard with explicit limits.

        Args:
            lower: Inclusive lower limits, shape (action_dim,); -inf for none.
            upper: Inclusive upper limits, shape (action_dim,); +inf for none.
            names: Names of the dimensions, for messages. Empty: `action[0]`, `action[1]`, ...
            num_rows: Exact number of rows of a chunk. None: any number from 1.
            on_limit: What happens to a finite value beyond a limit by more than
                `LIMIT_TOLERANCE`. "reject" (default) refuses the action, or the whole chunk;
                "clip" moves the value onto the limit and counts it in `num_clipped`. NaN and
                infinity are refused either way.

        Raises:
            InvalidArgumentError: Limits of different shape, NaN limits, or lower above upper.
        """
        if on_limit not in ("reject", "clip"):
            raise InvalidArgumentError(
                "not a limit rule", field="on_limit", value=on_limit, allowed=("reject", "clip")
            )
        self._lower = np.array(lower, dtype=np.float32, ndmin=1)
        self._upper = np.array(upper, dtype=np.float32, ndmin=1)
        if self._lower.ndim != 1 or self._lower.shape != self._upper.shape or not self._lower.size:
            raise InvalidArgumentError(
                "limits must be two arrays of one shape (action_dim,), action_dim at least 1",
                field="limits",
                value=f"shapes {self._lower.shape} and {self._upper.shape}",
            )
        if not bool(np.all(self._lower <= self._upper)):
            index = int(np.flatnonzero(~(self._lower <= self._upper))[0])
            raise InvalidArgumentError(
                "a lower limit must be a number not above its upper limit",
                field=f"limits[{index}]",
                value=f"{self._lower[index]}..{self._upper[index]}",
            )
        largest = np.finfo(np.float32).max
        self._least = np.maximum(self._lower, -largest)
        self._most = np.minimum(self._upper, largest)
        self._names = tuple(names) or tuple(f"action[{i}]" for i in range(self._lower.size))
        if len(self._names) != self._lower.size:
            raise InvalidArgumentError(
                f"{len(self._names)} names for {self._lower.size} dimensions", field="names"
            )
        self._num_rows = num_rows
        self._on_limit = on_limit
        self._num_clipped = 0

    @classmethod
    def from_spec(cls, spec: PolicySpec, *, on_limit: OnLimit = "reject") -> ActionGuard:
        """Guard for what a policy produces: its limits, its width, exactly `horizon` rows."""
        return cls(
            spec.lower_limits(),
            spec.upper_limits(),
            names=tuple(d.name for d in spec.action_dimensions),
            num_rows=spec.horizon,
            on_limit=on_limit,
        )

    @classmethod
    def unlimited(cls, action_dim: int) -> ActionGuard:
        """Guard that knows only the width: shape, dtype and finiteness are still checked."""
        return cls(np.full(action_dim, -np.inf), np.full(action_dim, np.inf))

    @property
    def action_dim(self) -> int:
        """Width of an action."""
        return int(self._lower.size)

    @property
    def num_clipped(self) -> int:
        """Values moved onto a limit so far; stays 0 with on_limit="reject"."""
        return self._num_clipped

    def check_action(self, action: object) -> NDArray[np.float32]:
        """One action that somebody on the robot's side made. Shape (action_dim,), float32.

        Raises:
            InvalidArgumentError: It must not be executed; names the dimension, value and limit.
        """
        array = self._numeric(action, "action", InvalidArgumentError)
        if array.shape != (self.action_dim,):
            raise InvalidArgumentError(
                f"an action must have shape ({self.action_dim},)",
                field="action",
                value=f"shape {array.shape}",
            )
        checked = self._checked(array[np.newaxis], InvalidArgumentError, is_chunk=False)
        return checked.reshape(self.action_dim)

    def check_chunk(self, actions: object) -> NDArray[np.float32]:
        """A chunk that a policy made. Shape (rows, action_dim), float32.

        Raises:
            BadModelOutputError: No row of it may be executed; names row, dimension, value, limit.
        """
        array = self._numeric(actions, "chunk", BadModelOutputError)
        rows = "rows >= 1" if self._num_rows is None else str(self._num_rows)
        has_rows = array.ndim == 2 and (
            array.shape[0] >= 1 if self._num_rows is None else array.shape[0] == self._num_rows
        )
        if not has_rows or array.shape[1] != self.action_dim:
            raise BadModelOutputError(
                f"a chunk must have shape ({rows}, {self.action_dim}); nothing of it is executed",
                field="chunk",
                value=f"shape {array.shape}",
            )
        return self._checked(array, BadModelOutputError, is_chunk=True)

    def _numeric(self, value: object, what: str, error: type[_Error]) -> NDArray[np.generic]:
        try:
            array: NDArray[np.generic] = np.asarray(value)
        except (ValueError, TypeError) as cause:
            raise error(
                f"the {what} is ragged: its rows differ in length or are not numbers",
                field=what,
                hint="every row must have the same number of values",
            ) from cause
        if array.dtype.kind not in _NUMERIC_KINDS:
            raise error(
                f"the {what} must hold real numbers",
                field=what,
                value=f"dtype {array.dtype}",
                allowed=("float", "int"),
            )
        return array

    def _checked(
        self, array: NDArray[np.generic], error: type[_Error], *, is_chunk: bool
    ) -> NDArray[np.float32]:
        # A float64 beyond float32's range becomes inf here and is refused like any other inf.
        if array.dtype == np.float32:
            values = array.astype(np.float32)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                values = array.astype(np.float32)
        # The common case in one step. NaN fails every comparison, infinity the bounds below.
        if bool(((values >= self._least) & (values <= self._most)).all()):
            return values
        finite = np.isfinite(values)
        if not finite.all():
            row, column = (int(i) for i in np.argwhere(~finite)[0])
            raise error(
                "every value must be finite; nothing was executed",
                field=self._place(row, column, is_chunk=is_chunk),
                value=array[row, column],
            )
        # Compared in float64, since limit + 1e-6 is not representable in float32 for large limits.
        excess = np.maximum(
            values.astype(np.float64) - self._upper, self._lower - values.astype(np.float64)
        )
        outside = excess > LIMIT_TOLERANCE
        if outside.any():
            if self._on_limit == "reject":
                row, column = (int(i) for i in np.argwhere(outside)[0])
                raise error(
                    "value out of limits; nothing was executed",
                    field=self._place(row, column, is_chunk=is_chunk),
                    value=values[row, column],
                    allowed=(f"{self._lower[column]} to {self._upper[column]}",),
                )
            self._num_clipped += int(outside.sum())
        clipped: NDArray[np.float32] = np.clip(values, self._lower, self._upper)
        return clipped

    def _place(self, row: int, column: int, *, is_chunk: bool) -> str:
        name = self._names[column]
        return f"row {row}, {name}" if is_chunk else name
