"""How the conversations of a kind of task go on: how much each turn adds, and when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[Any]

#: Turns ahead at which a course is looked at: closer together where more is known.
HORIZON_TURNS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 22, 26, 30, 35, 40)
#: Turns that are counted one by one; the last stands for all beyond.
_MOST_TURNS = 512
#: Evidence loses this share of its weight at each ended episode: about the newest 64 count.
_FADE = 1.0 - 1.0 / 64.0
#: A family's own ends are believed as if so many of its episodes had been seen besides, ending at
#: this share of the rate of all others: fleets change to longer tasks, and what was let in too much
#: cannot be sent out again.
_DOUBT = 3.0
_DOUBTED_SHARE = 0.7
_LEAST_ALIVE = 1e-9
#: Turns from this index on say what a turn adds far ahead; the first ones add much more.
_LATE_TURN = 5


_AHEAD = np.array(HORIZON_TURNS)


@dataclass(frozen=True, eq=False)
class Course:
    """Expected course of a conversation, by the number of its turns. Arrays of one length.

    Attributes:
        alive: Shape (n + 1,), float64. Share of conversations that reach more than so many turns;
            `alive[0]` is 1. Of turns beyond n nothing is known, and nothing is taken to end there.
        tokens: Shape (n + 1,), float64. Mean length after so many turns of one that reaches them;
            `tokens[0]` is 0.
        growth_tokens: What a turn beyond n adds.
    """

    alive: FloatArray = field(default_factory=lambda: np.ones(1))
    tokens: FloatArray = field(default_factory=lambda: np.zeros(1))
    growth_tokens: float = 0.0

    def expected_tokens(
        self, num_turns: Sequence[int], context_tokens: Sequence[int]
    ) -> tuple[FloatArray, FloatArray]:
        """Mean length of each conversation ahead, counted as 0 where it has ended.

        Args:
            num_turns: Turns that each has had so far.
            context_tokens: Its length now; what is to come is added to this.

        Returns:
            Shape (conversations, len(HORIZON_TURNS)).
        """
        last = len(self.tokens) - 1
        now = np.array(num_turns)[:, None]
        then = now + _AHEAD
        alive = self.alive[np.minimum(then, last)] / self.alive[np.minimum(now, last)]
        grown = self._length(then, last) - self._length(now, last)
        return alive * (np.array(context_tokens)[:, None] + grown), alive

    @property
    def ending(self) -> FloatArray:
        """Shape (n,). Share of those with so many turns, from 1 on, that end there."""
        return 1.0 - self.alive[1:] / self.alive[:-1]

    def of_a_newcomer(self) -> Course:
        """The same of a kind of conversation that nobody has seen yet."""
        alive = np.cumprod(1.0 - _DOUBTED_SHARE * self.ending)
        return replace(self, alive=np.concatenate(([1.0], np.maximum(alive, _LEAST_ALIVE))))

    def _length(self, turns: IntArray, last: int) -> FloatArray:
        beyond = np.maximum(turns - last, 0) * self.growth_tokens
        length: FloatArray = self.tokens[np.minimum(turns, last)] + beyond
        return length


class CourseHistory:
    """Learns a course from every turn of every episode, ended or not.

    Conversations that still run count as long as they were watched (the product-limit estimate of
    Kaplan and Meier), so a family of long tasks shows before the first of them has ended.
    """

    def __init__(self) -> None:
        # By turn index; index i of `_ended` and `_reached` is after that turn.
        self._grown_tokens = np.zeros(_MOST_TURNS)
        self._reached = np.zeros(_MOST_TURNS)
        self._ended = np.zeros(_MOST_TURNS)
        self._num_turns = 0
        self._course: Course | None = None
        self._others: Course | None = None

    def turn(self, turn_index: int, grown_tokens: float) -> None:
        """A conversation has got longer by its turn of this index; the first one is 0."""
        index = min(turn_index, _MOST_TURNS - 1)
        self._grown_tokens[index] += grown_tokens
        self._reached[index] += 1.0
        self._num_turns = max(self._num_turns, index + 1)
        self._course = None

    def end(self, num_turns: int) -> None:
        """A conversation went to its end after so many turns; at least 1."""
        self._grown_tokens *= _FADE
        self._reached *= _FADE
        self._ended *= _FADE
        self._ended[min(num_turns, _MOST_TURNS) - 1] += 1.0
        self._course = None

    def course(self, others: Course | None = None) -> Course:
        """As of now.

        Args:
            others: Of all conversations; says what turns add of which this kind has shown none.
        """
        if self._course is None or others is not self._others:
            self._course, self._others = self._learned(others), others
        return self._course

    def _learned(self, others: Course | None) -> Course:
        growth = self._mean_growth(_LATE_TURN)
        if growth is None:
            growth = self._mean_growth(1) if others is None else others.growth_tokens
        growth = growth or 0.0
        num = self._num_turns
        grown = np.full(num if others is None else max(num, len(others.tokens) - 1), growth)
        if others is not None:
            grown[: len(others.tokens) - 1] = np.diff(others.tokens)
        seen = self._reached[:num] > 0
        grown[:num][seen] = self._grown_tokens[:num][seen] / self._reached[:num][seen]
        ended, reached = np.zeros(len(grown)), np.full(len(grown), _DOUBT)
        if others is not None:
            ended[: len(others.alive) - 1] = _DOUBT * _DOUBTED_SHARE * others.ending
        ended[:num] += self._ended[:num]
        reached[:num] += self._reached[:num]
        goes_on = 1.0 - ended / reached
        alive = np.maximum(np.cumprod(goes_on), _LEAST_ALIVE)
        return Course(
            np.concatenate(([1.0], alive)), np.concatenate(([0.0], np.cumsum(grown))), growth
        )

    def _mean_growth(self, first_turn: int) -> float | None:
        num = float(self._reached[first_turn : self._num_turns].sum())
        if num <= 0:
            return None
        return float(self._grown_tokens[first_turn : self._num_turns].sum()) / num
