"""What happened in a run, counted as it happens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from robot_sdk.messages import TokenUsage
from server.core.residency import CountedTurn, EngineGauges, PrefixOutcome
from sim.fleet.replay.result import EpisodeTimes, Window
from sim.fleet.statistics import WINDOW_S


@dataclass
class _Count:
    """Turns and tokens of a span of time."""

    turns: int = 0
    hits: int = 0
    misses: int = 0
    computed_tokens: int = 0
    generated_tokens: int = 0
    episodes: int = 0

    @property
    def hit(self) -> float | None:
        """None: no turn says so."""
        counted = self.hits + self.misses
        return self.hits / counted if counted else None

    def add(self, usage: TokenUsage, counted: CountedTurn | None) -> None:
        """Count one turn."""
        self.turns += 1
        if counted is not None:
            self.hits += counted.outcome is PrefixOutcome.HIT
            self.misses += counted.outcome is PrefixOutcome.MISS
        self.computed_tokens += usage.computed_tokens or 0
        self.generated_tokens += usage.output_tokens or 0


@dataclass
class _Gauges:
    """Sums of what was seen at every look, and the last look."""

    num_looks: int = 0
    running: float = 0.0
    waiting: float = 0.0
    usage: float = 0.0
    active: float = 0.0
    num_active: int = 0
    num_at_door: int = 0
    working_set_share: float = 0.0
    cap: int | None = None

    def mean(self, total: float) -> float:
        """Of a sum; 0 without a look."""
        return total / self.num_looks if self.num_looks else 0.0


@dataclass
class EpisodeRecord:
    """An admitted episode while it runs; see `EpisodeTimes`."""

    task_family: str
    asked_s: float
    door_wait_s: float
    latencies_s: list[float] = field(default_factory=list)
    is_complete: bool = False

    def times(self) -> EpisodeTimes:
        """As a result keeps it."""
        return EpisodeTimes(
            self.task_family,
            round(self.asked_s, 3),
            round(self.door_wait_s, 3),
            tuple(round(latency_s, 3) for latency_s in self.latencies_s),
            self.is_complete,
        )


@dataclass
class Tally:
    """Counts of one run.

    Args:
        warm_up_s: Turns from then on also enter `after_warm_up`.
    """

    warm_up_s: float
    total: _Count = field(default_factory=_Count)
    after_warm_up: _Count = field(default_factory=_Count)
    episodes: list[EpisodeRecord] = field(default_factory=list)
    held_turns: set[tuple[str, int]] = field(default_factory=set)
    episodes_by_robot: dict[int, int] = field(default_factory=dict)
    _counts: defaultdict[int, _Count] = field(default_factory=lambda: defaultdict(_Count))
    _gauges: defaultdict[int, _Gauges] = field(default_factory=lambda: defaultdict(_Gauges))

    def join(self, robot: int) -> None:
        """A robot takes part from now on."""
        self.episodes_by_robot.setdefault(robot, 0)

    def came_in(self, task_family: str, asked_s: float, now_s: float) -> EpisodeRecord:
        """An episode was admitted."""
        self.episodes.append(EpisodeRecord(task_family, asked_s, now_s - asked_s))
        return self.episodes[-1]

    def committed(self, now_s: float, usage: TokenUsage, counted: CountedTurn | None) -> None:
        """A turn has ended at the server."""
        spans = [self.total, self._counts[_window(now_s)]]
        if now_s >= self.warm_up_s:
            spans.append(self.after_warm_up)
        for span in spans:
            span.add(usage, counted)

    def refreshed(self, now_s: float, computed_tokens: int) -> None:
        """The engine has touched a prefix, and computed what it had lost of it."""
        for span in (self.total, self._counts[_window(now_s)]):
            span.computed_tokens += computed_tokens

    def completed(self, robot: int, now_s: float) -> None:
        """A robot has run an episode to its end."""
        self.total.episodes += 1
        self._counts[_window(now_s)].episodes += 1
        self.episodes_by_robot[robot] += 1

    @property
    def latencies_s(self) -> list[float]:
        """Of all turns that robots have the answer of."""
        return [latency_s for episode in self.episodes for latency_s in episode.latencies_s]

    @property
    def door_waits_s(self) -> list[float]:
        """Of all episodes that were admitted."""
        return [episode.door_wait_s for episode in self.episodes]

    def look(
        self,
        now_s: float,
        engine: EngineGauges,
        num_active: int,
        num_at_door: int,
        working_set_share: float,
        cap: int | None,
    ) -> None:
        """Regular look at engine and door. A look at a window's end belongs to that window."""
        gauges = self._gauges[max(_window(now_s - 1e-6), 0)]
        gauges.num_looks += 1
        gauges.running += engine.requests_running or 0
        gauges.waiting += engine.requests_waiting or 0
        gauges.usage += engine.kv_cache_usage or 0.0
        gauges.active += num_active
        gauges.num_active, gauges.num_at_door = num_active, num_at_door
        gauges.working_set_share, gauges.cap = working_set_share, cap

    @property
    def mean_active(self) -> float:
        """Episodes inside, over all looks; 0 without one."""
        looks = sum(gauges.num_looks for gauges in self._gauges.values())
        active = sum(gauges.active for gauges in self._gauges.values())
        return active / looks if looks else 0.0

    def windows(self, end_s: float) -> tuple[Window, ...]:
        """All windows up to the end of the run; the last one may be cut short."""
        windows = []
        index = 0
        while index * WINDOW_S < end_s:
            count, gauges = self._counts[index], self._gauges[index]
            windows.append(
                Window(
                    start_s=index * WINDOW_S,
                    end_s=min((index + 1) * WINDOW_S, end_s),
                    turns=count.turns,
                    hit=count.hit,
                    computed_prompt_tokens=count.computed_tokens,
                    generated_tokens=count.generated_tokens,
                    episodes=count.episodes,
                    num_active=gauges.num_active,
                    num_waiting=gauges.num_at_door,
                    num_running_turns=gauges.mean(gauges.running),
                    num_waiting_turns=gauges.mean(gauges.waiting),
                    kv_cache_usage=gauges.mean(gauges.usage),
                    working_set_share=gauges.working_set_share,
                    cap=gauges.cap,
                )
            )
            index += 1
        return tuple(windows)


def _window(now_s: float) -> int:
    return int(now_s // WINDOW_S)
