"""A policy source that counts a chunk's rows from its arrival, as the study's figures do."""

from __future__ import annotations

from typing import Literal

import numpy as np

from robot_sdk.action_source import Act, Command, Hold, HoldReason, Tick
from robot_sdk.buffer import ChunkBuffer
from robot_sdk.chunks import ChunkArrival, PolicyObservation, PolicyStream


class RowsFromArrival:
    """Executes `executed_steps` rows of every chunk, from its first, whenever it comes.

    The next observation goes out when a chunk's first row is executed, so an answer is in time
    within executed_steps / control_hz, the study's deadline. Rows are therefore executed later than
    the steps they were meant for, by however long the answer took.
    """

    kind: Literal["policy"] = "policy"
    name = "rows-from-arrival"

    def __init__(self, stream: PolicyStream) -> None:
        self._stream = stream
        self._buffer = ChunkBuffer()
        self._executed_steps = stream.spec.executed_steps
        self._free_step = 0
        self._asks_at_step: int | None = None
        self._num_sent = 0
        self._has_answer = False

    def start(self, tick: Tick) -> None:
        """Ask at once."""
        self._asks_at_step = tick.step

    def next(self, tick: Tick) -> Command:
        """One row per tick, as long as there are any."""
        for answer in self._stream.poll():
            if isinstance(answer, ChunkArrival):
                first_step = max(tick.step, self._free_step)
                rows = answer.actions[: self._executed_steps].astype(np.float32)
                self._buffer.merge(first_step, rows, tick.step)
                self._free_step = first_step + len(rows)
                self._asks_at_step = first_step
                self._has_answer = True
            else:
                self._asks_at_step = tick.step
        if self._asks_at_step is not None and tick.step >= self._asks_at_step:
            self._ask(tick)
        row = self._buffer.pop(tick.step)
        if row is not None:
            return Act(row)
        return Hold(HoldReason.STARVED if self._has_answer else HoldReason.START_WAIT)

    def wait(self, timeout_s: float) -> None:
        """Only called in lockstep, in which nothing starves."""
        self._stream.wait(timeout_s)

    def stop(self) -> None:
        self._stream.close()

    def _ask(self, tick: Tick) -> None:
        self._asks_at_step = None
        self._stream.send(
            PolicyObservation(
                sequence=self._num_sent,
                control_step=tick.step,
                observation=tick.observe(()),
                buffered_steps=self._buffer.remaining(tick.step),
            )
        )
        self._num_sent += 1
