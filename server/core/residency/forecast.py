"""How long the conversations of a kind of task become."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Share of its family's mean peak that an episode is forecast at while it is shorter: episodes are
#: at different points of their lives, so not all are at their peak at once. The best of a few
#: values in a replay of the study's fleet on vLLM's scheduler.
PEAK_SHARE = 0.85
#: Ended episodes of a family that count, and families that are remembered: robots name families
#: freely, so the table must be bounded.
_ENDED_PER_FAMILY = 64
_MAX_FAMILIES = 256
#: Weight of the newest turn in the growth per turn.
_NEWEST = 0.05


@dataclass(frozen=True)
class FamilyForecast:
    """What is known of a task family. None: nothing yet.

    Attributes:
        num_ended: Episodes the peak is learned from.
        mean_peak_tokens: Mean longest context of ended episodes.
        growth_tokens_per_turn: What a turn adds, output included; a mean that follows slowly.
    """

    num_ended: int = 0
    mean_peak_tokens: float | None = None
    growth_tokens_per_turn: float | None = None


@dataclass(frozen=True)
class ForecastTable:
    """Forecasts by task family, and over all families for one that is new.

    What a family does not know itself is filled in from all families.
    """

    overall: FamilyForecast = field(default_factory=FamilyForecast)
    families: Mapping[str, FamilyForecast] = field(default_factory=dict)

    def of(self, family: str) -> FamilyForecast:
        """Forecast of a family, or what is known of all of them."""
        return self.families.get(family) or FamilyForecast(
            0, self.overall.mean_peak_tokens, self.overall.growth_tokens_per_turn
        )


class _History:
    """One family, or all of them."""

    def __init__(self) -> None:
        self._peaks: deque[int] = deque(maxlen=_ENDED_PER_FAMILY)
        self._sum = 0
        self._growth: float | None = None

    def ended(self, peak_tokens: int) -> None:
        if len(self._peaks) == _ENDED_PER_FAMILY:
            self._sum -= self._peaks[0]
        self._peaks.append(peak_tokens)
        self._sum += peak_tokens

    def grew(self, tokens: int) -> None:
        if self._growth is None:
            self._growth = float(tokens)
        else:
            self._growth += _NEWEST * (tokens - self._growth)

    @property
    def forecast(self) -> FamilyForecast:
        num = len(self._peaks)
        return FamilyForecast(num, self._sum / num if num else None, self._growth)


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

    def ended(self, family: str, peak_tokens: int) -> None:
        """An episode went to its end; its context was at most this long."""
        self._overall.ended(peak_tokens)
        self._of(family).ended(peak_tokens)
        self._table = None

    @property
    def table(self) -> ForecastTable:
        """As of now; the same object until something was learned."""
        if self._table is None:
            overall = self._overall.forecast
            self._table = ForecastTable(
                overall,
                {name: _filled(h.forecast, overall) for name, h in self._families.items()},
            )
        return self._table

    def _of(self, family: str) -> _History:
        history = self._families.setdefault(family, _History())
        self._families.move_to_end(family)
        if len(self._families) > _MAX_FAMILIES:
            self._families.popitem(last=False)
        return history


def _filled(own: FamilyForecast, overall: FamilyForecast) -> FamilyForecast:
    peak, growth = own.mean_peak_tokens, own.growth_tokens_per_turn
    return FamilyForecast(
        num_ended=own.num_ended,
        mean_peak_tokens=overall.mean_peak_tokens if peak is None else peak,
        growth_tokens_per_turn=overall.growth_tokens_per_turn if growth is None else growth,
    )
