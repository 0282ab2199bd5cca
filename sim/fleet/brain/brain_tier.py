"""The brain's engine in virtual time: vLLM's own scheduler, and steps that take time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from server.capacity.engine import FinishedTurn, SchedulerOnlyEngine, Step, Turn
from server.core.residency.engine_gauges import EngineGauges
from sim.fleet.brain.cost_model import CostModel
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


class BrainTier:
    """Hands turns to an engine and takes from a cost model how long its steps last."""

    def __init__(self, loop: EventLoop, engine: SchedulerOnlyEngine, cost: CostModel) -> None:
        self._loop = loop
        self._engine = engine
        self._cost = cost
        self._inside: dict[str, _Inside] = {}
        self._is_stepping = False

    @property
    def num_running(self) -> int:
        """Turns that hold blocks of the pool."""
        return self._engine.num_running

    @property
    def num_waiting(self) -> int:
        """Turns in the engine's queue."""
        return self._engine.num_turns - self._engine.num_running

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
        )

    def submit(self, turn: Turn, on_done: Callable[[BrainTurn], None]) -> None:
        """A turn has arrived. `on_done` is called at the time of its last token."""
        now_s = self._loop.clock.now_s()
        inside = _Inside(turn, now_s, on_done)
        before_s = self._cost.before_engine_s(turn.num_prompt_tokens)
        self._loop.at(now_s + before_s, lambda: self._enter(inside))

    def _enter(self, inside: _Inside) -> None:
        self._engine.add(inside.turn)
        self._inside[inside.turn.name] = inside
        if not self._is_stepping:
            self._is_stepping = True
            # After everything else that is due now, so that all of it is in the step.
            self._loop.at(self._loop.clock.now_s(), self._begin_step)

    def _begin_step(self) -> None:
        if not self._engine.num_turns:
            self._is_stepping = False
            return
        step = self._engine.step()
        ends_s = self._loop.clock.now_s() + self._cost.step_time_s(step.scheduled)
        self._loop.at(ends_s, lambda: self._end_step(step))

    def _end_step(self, step: Step) -> None:
        now_s = self._loop.clock.now_s()
        for piece in step.scheduled:
            inside = self._inside[piece.name]
            if inside.first_token_s is None and piece.end >= inside.turn.num_prompt_tokens:
                inside.first_token_s = now_s
        for finished in step.finished:
            inside = self._inside.pop(finished.name)
            first_token_s = now_s if inside.first_token_s is None else inside.first_token_s
            inside.on_done(BrainTurn(finished, inside.submitted_s, first_token_s, now_s))
        self._loop.at(now_s, self._begin_step)
