"""The brain's engine in virtual time: vLLM's own scheduler, and steps that take time."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace

from server.capacity.engine import (
    DecodeStretch,
    FinishedTurn,
    SchedulerOnlyEngine,
    Step,
    Turn,
)
from server.core.residency.engine_gauges import EngineGauges
from sim.fleet.brain.cost_model import CostModel
from sim.fleet.brain.offload import HostMemory
from sim.fleet.event_loop import EventLoop


@dataclass(frozen=True)
class BrainTurn:
    """A turn that has ended. Virtual time, of the loop's clock.

    Attributes:
        submitted_s: When it was handed in.
        first_token_s: When its first token was there.
        done_s: When its last one was.
    """

    finished: FinishedTurn
    submitted_s: float
    first_token_s: float
    done_s: float


@dataclass
class _Inside:
    turn: Turn
    submitted_s: float
    on_done: Callable[[BrainTurn], None]
    first_token_s: float | None = None


@dataclass(frozen=True)
class _Ahead:
    """Decode steps that are planned and not yet taken."""

    begins_s: float
    stretch: DecodeStretch


class BrainTier:
    """Hands turns to an engine and takes from a cost model how long its steps last.

    Decode steps are planned together as far as nothing can happen between them. They are taken at
    their end, which an arrival moves to the end of the step that runs: then it is as if each had
    been taken by itself (tests/fidelity compares).

    Args:
        host: Where evicted prefixes go; None: they are lost.
    """

    def __init__(
        self,
        loop: EventLoop,
        engine: SchedulerOnlyEngine,
        cost: CostModel,
        host: HostMemory | None = None,
    ) -> None:
        self._loop = loop
        self._engine = engine
        self._cost = cost
        self._host = host
        self._inside: dict[str, _Inside] = {}
        self._is_stepping = False
        self._ahead: _Ahead | None = None
        self._arrived: list[_Inside] = []

    @property
    def num_running(self) -> int:
        """Turns that hold blocks of the pool."""
        return self._engine.num_running

    @property
    def num_waiting(self) -> int:
        """Turns in the engine's queue."""
        return self._engine.num_turns + len(self._arrived) - self._engine.num_running

    @property
    def gauges(self) -> EngineGauges:
        """What this engine tells of itself."""
        settings = self._engine.settings
        return EngineGauges(
            pool_blocks=settings.pool.num_blocks,
            block_tokens=settings.pool.block_tokens,
            kv_cache_usage=self._engine.kv_cache_usage,
            requests_running=self.num_running,
            requests_waiting=self.num_waiting,
            snapshot_interval_tokens=settings.snapshot_interval_tokens,
            can_refresh=True,
        )

    def submit(self, turn: Turn, on_done: Callable[[BrainTurn], None]) -> None:
        """A turn has arrived. `on_done` is called at the time of its last token."""
        now_s = self._loop.clock.now_s()
        inside = _Inside(turn, now_s, on_done)
        before_s = self._cost.before_engine_s(turn.num_prompt_tokens)
        self._loop.at(now_s + before_s, lambda: self._enter(inside))

    def is_past_prompt(self, name: str) -> bool:
        """Whether a turn that was handed in and has not ended generates by now."""
        inside = self._inside.get(name)
        return inside is not None and inside.first_token_s is not None

    def _enter(self, inside: _Inside) -> None:
        if self._ahead is not None:
            self._arrived.append(inside)
            if len(self._arrived) == 1:
                self._cut_short(self._ahead)
            return
        self._add(inside)
        if not self._is_stepping:
            self._is_stepping = True
            # After everything else that is due now, so that all of it is in the step.
            self._loop.at(self._loop.clock.now_s(), self._begin)

    def _add(self, inside: _Inside) -> None:
        self._engine.add(inside.turn)
        self._inside[inside.turn.name] = inside

    def _begin(self) -> None:
        now_s = self._loop.clock.now_s()
        if not self._engine.num_turns:
            self._is_stepping = False
            return
        stretch = self._engine.decode_stretch()
        if stretch is None or stretch.num_steps == 1:
            step = self._engine.step()
            self._loop.at(now_s + self._step_time_s(step), lambda: self._end(step))
            return
        self._ahead = ahead = _Ahead(now_s, stretch)
        self._loop.at(self._ends_s(ahead, stretch.num_steps), lambda: self._take(ahead))

    def _step_time_s(self, step: Step) -> float:
        if self._host is None:
            return self._cost.step_time_s(step.scheduled)
        cached_tokens: dict[str, int] = {}
        for piece in step.scheduled:
            if piece.is_prefill:
                cached_tokens.setdefault(piece.name, piece.start)
        for name in step.started:
            self._host.start(self._inside[name].turn, cached_tokens[name])
        computed, num_loaded = self._host.split(step.scheduled)
        computed_s = self._cost.step_time_s(computed)
        if not num_loaded:
            return computed_s
        return max(computed_s, self._host.copy_s(num_loaded, self._loop.clock.now_s()))

    def _ends_s(self, ahead: _Ahead, num_steps: int) -> float:
        return ahead.begins_s + self._cost.stretch_time_s(ahead.stretch.positions, num_steps)

    def _cut_short(self, ahead: _Ahead) -> None:
        steps = range(1, ahead.stretch.num_steps)
        now_s = self._loop.clock.now_s()
        num_before = bisect.bisect_left(steps, now_s, key=lambda n: self._ends_s(ahead, n))
        if num_before == len(steps):
            return
        shorter = replace(ahead.stretch, num_steps=steps[num_before])
        self._ahead = ahead = replace(ahead, stretch=shorter)
        self._loop.at(self._ends_s(ahead, shorter.num_steps), lambda: self._take(ahead))

    def _take(self, ahead: _Ahead) -> None:
        if ahead is not self._ahead:
            return  # It was cut short.
        self._ahead = None
        step = self._engine.step(ahead.stretch.num_steps)
        for inside in self._arrived:
            self._add(inside)
        self._arrived.clear()
        self._end(step)

    def _end(self, step: Step) -> None:
        now_s = self._loop.clock.now_s()
        for piece in step.scheduled:
            if piece.is_prefill:
                inside = self._inside[piece.name]
                if inside.first_token_s is None and piece.end >= inside.turn.num_prompt_tokens:
                    inside.first_token_s = now_s
        for ended in step.finished:
            inside = self._inside.pop(ended.name)
            finished = ended if self._host is None else self._with_host(ended, inside.turn)
            first_token_s = now_s if inside.first_token_s is None else inside.first_token_s
            inside.on_done(BrainTurn(finished, inside.submitted_s, first_token_s, now_s))
        self._loop.at(now_s, self._begin)

    def _with_host(self, finished: FinishedTurn, turn: Turn) -> FinishedTurn:
        """Tokens out of host memory count as cached, as vLLM counts those of a connector."""
        assert self._host is not None
        cached_tokens = max(finished.cached_tokens, self._host.loaded_tokens(turn))
        self._host.end(turn, self._loop.clock.now_s())
        return replace(finished, cached_tokens=cached_tokens)
