"""The rows that are still to be executed, addressed by control step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.merging import MERGE_FUNCTIONS, MergeName, Row


@dataclass(frozen=True)
class MergeResult:
    """What became of one chunk.

    Attributes:
        applied_step: First step that the chunk has a say in; None if it has none.
        dropped_rows: Rows not used: their step was over, or the whole chunk was outdated.
        outdated: A chunk of a newer observation had been merged before.
    """

    applied_step: int | None
    dropped_rows: int
    outdated: bool = False


class ChunkBuffer:
    """Rows by control step. A chunk that answers step s gives its row i to step s + i.

    A row is handed out at its own step or never: rows of steps that are over are dropped, not
    replayed. The newer observation wins: a chunk that answers an older step than the newest merged
    one is dropped. For one thread; it knows nothing of clocks.
    """

    def __init__(self, merge: MergeName = "replace") -> None:
        """An empty buffer.

        Args:
            merge: "replace", "linear_blend" or "temporal_ensemble"; see `robot_sdk.merging`.
        """
        if merge not in MERGE_FUNCTIONS:
            raise InvalidArgumentError(
                "not a merge policy", field="merge", value=merge, allowed=MERGE_FUNCTIONS
            )
        self._merge_rows = MERGE_FUNCTIONS[merge]
        self._rows: dict[int, Row] = {}
        self._newest_step: int | None = None
        self._next_step = 0
        self._dropped_rows = 0
        self._outdated_chunks = 0

    @property
    def dropped_rows(self) -> int:
        """Rows since the last clear that never became an action: late, outdated or skipped."""
        return self._dropped_rows

    @property
    def outdated_chunks(self) -> int:
        """Chunks since the last clear that came after a chunk of a newer observation."""
        return self._outdated_chunks

    def merge(self, control_step: int, actions: NDArray[np.float32], now_step: int) -> MergeResult:
        """Join a chunk that `ActionGuard.check_chunk` has passed.

        Args:
            control_step: Step of the observation that it answers.
            actions: Shape (rows, action_dim). Copied.
            now_step: First step that has not been commanded yet.
        """
        if actions.ndim != 2 or not len(actions):
            raise InvalidArgumentError(
                "a chunk has shape (rows, action_dim), at least one row",
                field="actions",
                value=f"shape {actions.shape}",
            )
        self._forget_before(now_step)
        if self._newest_step is not None and control_step < self._newest_step:
            self._outdated_chunks += 1
            self._dropped_rows += len(actions)
            return MergeResult(None, len(actions), outdated=True)
        # Rows of steps already handed out stay out, also if the caller's now_step lags behind.
        first_step = max(control_step, self._next_step)
        num_late = min(first_step - control_step, len(actions))
        self._dropped_rows += num_late
        if num_late == len(actions):
            return MergeResult(None, num_late)
        new = {
            control_step + i: Row(actions[i].astype(np.float64))
            for i in range(num_late, len(actions))
        }
        self._rows = self._merge_rows(self._rows, new)
        self._newest_step = control_step
        return MergeResult(first_step, num_late)

    def pop(self, step: int) -> NDArray[np.float32] | None:
        """The action of `step`, shape (action_dim,), or None. Steps up to it are over afterwards.

        A step is handed out once: asking for it again, or for an earlier one, gives None.
        """
        if step < self._next_step:
            return None
        self._forget_before(step)
        row = self._rows.pop(step, None)
        self._next_step = step + 1
        return None if row is None else row.value.astype(np.float32)

    def remaining(self, step: int) -> int:
        """Rows that can be executed from `step` on without a gap."""
        count = 0
        while step + count in self._rows:
            count += 1
        return count

    def leading_rows(self, step: int, num_steps: int) -> NDArray[np.float32] | None:
        """The rows from `step` on without a gap, at most `num_steps`. They stay in the buffer.

        Returns shape (n, action_dim), n >= 1; None if there is none.
        """
        count = min(num_steps, self.remaining(step))
        if count < 1:
            return None
        rows = [self._rows[step + i].value for i in range(count)]
        return np.stack(rows).astype(np.float32)

    def clear(self) -> None:
        """Forget everything: a new instruction or episode begins."""
        self._rows = {}
        self._newest_step = None
        self._next_step = 0
        self._dropped_rows = 0
        self._outdated_chunks = 0

    def _forget_before(self, step: int) -> None:
        if step <= self._next_step:
            return
        over = [key for key in self._rows if key < step]
        for key in over:
            del self._rows[key]
        self._dropped_rows += len(over)
        self._next_step = step
