"""The grid of absolute tick deadlines t0 + k / f."""

from __future__ import annotations

import math

from robot_sdk.errors import InvalidArgumentError

#: A shift smaller than this is none: the system clock and the scheduler move a tick by as much.
_SAME_PHASE_S = 5e-4

#: A tick may begin at most this part of a period late; later, it is skipped. Two ticks therefore
#: never begin closer together than half a period, however long the loop was held up.
MAX_LATENESS_PERIODS = 0.5


class TickGrid:
    """Deadlines that do not drift: each is computed from the first one, never from the last."""

    def __init__(self, start_s: float, control_hz: float) -> None:
        """A grid that begins at `start_s`.

        Args:
            start_s: Deadline of tick 0, on the control loop's clock.
            control_hz: Ticks per second.
        """
        if not (math.isfinite(control_hz) and control_hz > 0):
            raise InvalidArgumentError(
                "must be a number above 0", field="control_hz", value=control_hz
            )
        self._start_s = start_s
        self._control_hz = control_hz

    @property
    def period_s(self) -> float:
        """Time between two deadlines, in seconds."""
        return 1.0 / self._control_hz

    def deadline_s(self, index: int) -> float:
        """When tick `index` is due."""
        return self._start_s + index / self._control_hz

    def delay_to_phase_s(self, index: int, phase_s: float) -> float:
        """How much later the grid has to begin for `phase_s` to be a deadline; 0 <= delay < period.

        Args:
            index: Next tick. Its deadline is what the delay is counted from.
            phase_s: Any moment on the grid that is wanted, in the past or in the future.
        """
        delay_s = (phase_s - self.deadline_s(index)) % self.period_s
        is_same = min(delay_s, self.period_s - delay_s) < _SAME_PHASE_S
        return 0.0 if is_same else delay_s

    def delay(self, delay_s: float) -> None:
        """Move all deadlines `delay_s` later; the numbers of the ticks stay.

        Raises:
            InvalidArgumentError: Not from 0 to one period. Never earlier: a period must not hold
                two commands; and never by more than a period, which would be a stall.
        """
        if not 0.0 <= delay_s < self.period_s:
            raise InvalidArgumentError(
                "the grid moves later, by less than one period",
                field="delay_s",
                value=delay_s,
                allowed=(f"0 to {self.period_s:g}",),
            )
        self._start_s += delay_s

    def next_index(self, index: int, now_s: float, commanded_s: float | None) -> int:
        """First tick from `index` on that may still be run; those before it are skipped.

        Skipped are ticks more than half a period late, and ticks whose deadline is not after
        `commanded_s`, the moment of the last command (None: none so far): a command that came so
        late that it fell into a later period has used that period up. So no period ever holds
        two commands.
        """
        earliest_s = now_s - MAX_LATENESS_PERIODS * self.period_s
        # The guess may be one off through float rounding; the loops below settle it exactly.
        guess = math.ceil((earliest_s - self._start_s) * self._control_hz) - 2
        index = max(index, guess)
        while self.deadline_s(index) < earliest_s:
            index += 1
        while commanded_s is not None and self.deadline_s(index) <= commanded_s:
            index += 1
        return index
