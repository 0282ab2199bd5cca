"""How long the conversations of a kind of task become."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from server.core.residency.course import Course, CourseHistory

#: Share of its family's mean peak that an episode is forecast at while it is shorter: episodes are
#: at different points of their lives, so not all are at their peak at once. The best of a few
#: values in a replay of the study's fleet on vLLM's scheduler.
PEAK_SHARE = 0.85
#: Fewer ended episodes than this are too few for a mean: those that end first are the short ones.
_ENOUGH_ENDED = 8
#: Ended episodes of a family that count, and families that are remembered: robots name families
#: freely, so the table must be bounded.
_ENDED_PER_FAMILY = 64
_MAX_FAMILIES = 256
#: Among more families than this with an ended episode a new one is taken to be one more of the
#: same; among fewer it is a change of task, and its end is doubted.
_FEW_FAMILIES = 8
#: Weight of the newest turn in the growth per turn.
_NEWEST = 0.05


@dataclass(frozen=True)
class FamilyForecast:
    """What is known of a task family. None: nothing yet.

    Attributes:
        num_ended: Episodes the peak is learned from.
        peak_tokens: How long its conversations are taken to become: the mean longest context of
            ended episodes, or the longest of all as long as few have ended.
        growth_tokens_per_turn: What a turn adds, output included; a mean that follows slowly.
        course: Length and end by number of turns.
    """

    num_ended: int = 0
    peak_tokens: float | None = None
    growth_tokens_per_turn: float | None = None
    course: Course = field(default_factory=Course)


@dataclass(frozen=True)
class ForecastTable:
    """Forecasts by task family, and for one of which nothing has ended yet.

    A family that is new is taken to be like the longest that was seen, not like the mean: fleets
    change to longer tasks, and what was let in too much cannot be sent out again.

    Attributes:
        num_ended: Episodes of all families that count.
    """

    num_ended: int = 0
    newcomer: FamilyForecast = field(default_factory=FamilyForecast)
    families: Mapping[str, FamilyForecast] = field(default_factory=dict)

    def of(self, family: str) -> FamilyForecast:
        """Forecast of a family."""
        return self.families.get(family, self.newcomer)


class _History:
    """One family, or all of them."""

    def __init__(self) -> None:
        self._peaks: deque[int] = deque(maxlen=_ENDED_PER_FAMILY)
        self.num_ended = 0
        self.longest_tokens: float | None = None
        self.peak_tokens: float | None = None
        self.growth_tokens: float | None = None
        self.courses = CourseHistory()

    def ended(self, peak_tokens: int, num_turns: int) -> None:
        self.courses.end(num_turns)
        self._peaks.append(peak_tokens)
        self.num_ended = len(self._peaks)
        self.longest_tokens = float(max(self._peaks))
        enough = self.num_ended >= _ENOUGH_ENDED
        self.peak_tokens = sum(self._peaks) / self.num_ended if enough else self.longest_tokens

    def grew(self, tokens: int) -> None:
        if self.growth_tokens is None:
            self.growth_tokens = float(tokens)
        else:
            self.growth_tokens += _NEWEST * (tokens - self.growth_tokens)


class FamilyHistories:
    """Learns the table. The family used longest ago is dropped when there are too many."""

    def __init__(self) -> None:
        self._overall = _History()
        self._families: OrderedDict[str, _History] = OrderedDict()
        self._table: ForecastTable | None = None

    def grew(self, family: str, tokens: int) -> None:
        """A turn that was neither first nor a rebuild made a conversation longer."""
        self._overall.grew(tokens)
        self._of(family).grew(tokens)
        self._table = None

    def turn(self, family: str, turn_index: int, tokens: int) -> None:
        """An episode's turn of this index made its conversation so much longer."""
        self._overall.courses.turn(turn_index, tokens)
        self._of(family).courses.turn(turn_index, tokens)
        self._table = None

    def ended(self, family: str, peak_tokens: int, num_turns: int = 0) -> None:
        """An episode went to its end; its context was at most this long."""
        self._overall.ended(peak_tokens, num_turns)
        self._of(family).ended(peak_tokens, num_turns)
        self._table = None

    @property
    def table(self) -> ForecastTable:
        """As of now; the same object until something was learned."""
        if self._table is None:
            every = self._overall
            overall = every.courses.course()
            num_ended = sum(history.num_ended > 0 for history in self._families.values())
            newcomer = FamilyForecast(
                0,
                every.longest_tokens,
                every.growth_tokens,
                overall if num_ended > _FEW_FAMILIES else overall.of_a_newcomer(),
            )
            families = {
                name: _filled(h, newcomer, h.courses.course(overall))
                for name, h in self._families.items()
            }
            self._table = ForecastTable(every.num_ended, newcomer, families)
        return self._table

    def _of(self, family: str) -> _History:
        history = self._families.setdefault(family, _History())
        self._families.move_to_end(family)
        if len(self._families) > _MAX_FAMILIES:
            self._families.popitem(last=False)
        return history


def _filled(history: _History, newcomer: FamilyForecast, course: Course) -> FamilyForecast:
    peak, growth = history.peak_tokens, history.growth_tokens
    return FamilyForecast(
        history.num_ended,
        newcomer.peak_tokens if peak is None else peak,
        newcomer.growth_tokens_per_turn if growth is None else growth,
        course,
    )
