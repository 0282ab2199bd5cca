"""Turns of one episode, each run at most once to its commit.

A turn is being worked on by one attempt at a time. An attempt either commits, after which the turn
is played back from its record for ever, or is abandoned and leaves no trace, after which the turn
may be attempted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from robot_sdk.errors import CancelledByServerError, OutOfOrderError, TurnInProgressError

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class Attempt:
    """Permission to work on one turn. `number` tells attempts at the same turn apart."""

    turn_index: int
    number: int


@dataclass(frozen=True)
class Replay(Generic[RecordT]):
    """The turn has been committed before; this is what it said."""

    record: RecordT


class TurnLog(Generic[RecordT]):
    """The committed turns of one episode and the attempt that is under way."""

    def __init__(self) -> None:
        self._records: list[RecordT] = []
        self._current: Attempt | None = None
        self._num_attempts = 0

    @property
    def num_committed(self) -> int:
        return len(self._records)

    @property
    def in_progress(self) -> bool:
        return self._current is not None

    def begin(self, turn_index: int) -> Attempt | Replay[RecordT]:
        """Ask to run a turn.

        Raises:
            OutOfOrderError: The index skips a turn.
            TurnInProgressError: Another call works on it. Retry soon.
        """
        if turn_index < len(self._records):
            return Replay(self._records[turn_index])
        if turn_index > len(self._records):
            raise OutOfOrderError(
                "turn_index does not follow the last committed turn",
                field="turn_index",
                value=turn_index,
                allowed=(f"0..{len(self._records)}",),
            )
        if self._current is not None:
            raise TurnInProgressError(
                "another call is working on this turn",
                field="turn_index",
                value=turn_index,
                retry_after_s=0.1,
            )
        self._num_attempts += 1
        self._current = Attempt(turn_index, self._num_attempts)
        return self._current

    def is_current(self, attempt: Attempt) -> bool:
        return self._current == attempt

    def commit(self, attempt: Attempt, record: RecordT) -> None:
        """Make the turn count.

        Raises:
            CancelledByServerError: The attempt was abandoned before; nothing was recorded.
        """
        if self._current != attempt:
            raise CancelledByServerError(
                "this attempt at the turn was abandoned",
                field="turn_index",
                value=attempt.turn_index,
            )
        self._records.append(record)
        self._current = None

    def abandon(self, attempt: Attempt) -> None:
        """Give the attempt up. Without effect after its commit or a second time."""
        if self._current == attempt:
            self._current = None
