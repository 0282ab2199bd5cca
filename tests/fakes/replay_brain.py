"""A brain for replays without vLLM: turns take as long as told, and find their prefix or not."""

from __future__ import annotations

from collections.abc import Callable

from server.capacity.engine import FinishedTurn, Turn
from server.core.residency import EngineGauges
from sim.fleet.brain.brain_tier import BrainTurn
from sim.fleet.event_loop import EventLoop

BLOCK_TOKENS = 100


class FakeBrain:
    """Serves every turn at once.

    Args:
        turn_s: How long each takes.
        keeps: Whether a session's prefix is found again, by virtual time.
        prompt_s: How much of that goes by before it generates.

    Attributes:
        submitted: All turns, with the time at which they came.
    """

    def __init__(
        self,
        loop: EventLoop,
        turn_s: float = 1.0,
        keeps: Callable[[float], bool] = lambda _: True,
        prompt_s: float = 0.0,
    ) -> None:
        self._loop = loop
        self._turn_s = turn_s
        self._keeps = keeps
        self._prompt_s = prompt_s
        self._held: dict[int, int] = {}
        self._inside = 0
        self._began_s: dict[str, float] = {}
        self.submitted: list[tuple[float, Turn]] = []

    @property
    def gauges(self) -> EngineGauges:
        """Of a pool of 1,000 blocks."""
        return EngineGauges(
            pool_blocks=1000,
            block_tokens=BLOCK_TOKENS,
            kv_cache_usage=0.25,
            requests_running=self._inside,
            requests_waiting=0,
            can_refresh=True,
        )

    def is_past_prompt(self, name: str) -> bool:
        """All of a turn's time after its prompt is taken to generate."""
        began_s = self._began_s.get(name)
        return began_s is not None and self._loop.clock.now_s() >= began_s + self._prompt_s

    def submit(self, turn: Turn, on_done: Callable[[BrainTurn], None]) -> None:
        """See BrainTier."""
        now_s = self._loop.clock.now_s()
        self.submitted.append((now_s, turn))
        self._inside += 1
        self._began_s[turn.name] = now_s
        held = self._held.get(id(turn.blocks), 0) if self._keeps(now_s) else 0
        cached = min(held, turn.num_prompt_tokens) // BLOCK_TOKENS * BLOCK_TOKENS
        finished = FinishedTurn(turn.name, cached, turn.num_prompt_tokens, turn.num_output_tokens)
        done_s = now_s + self._turn_s

        def end() -> None:
            self._inside -= 1
            del self._began_s[turn.name]
            computed = turn.num_prompt_tokens + turn.num_output_tokens - 1
            self._held[id(turn.blocks)] = max(computed, self._held.get(id(turn.blocks), 0))
            on_done(BrainTurn(finished, now_s, done_s, done_s))

        self._loop.at(done_s, end)
