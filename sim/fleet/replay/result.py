"""What a replay gave."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Window:
    """One window of a run (120 s, as the study's). None: no turn says so.

    Attributes:
        start_s, end_s: Virtual time.
        hit: Full-prefix hits of turns that are not first ones.
        num_active: Episodes inside at its end.
        cap: The policy's cap at its end; None: it has none.
        kv_cache_usage: Mean of the engine's gauge: running turns only.
        working_set_share: Blocks of live contexts over the pool's, at its end.
    """

    start_s: float
    end_s: float
    turns: int
    hit: float | None
    computed_prompt_tokens: int
    generated_tokens: int
    episodes: int
    num_active: int
    num_waiting: int
    num_running_turns: float
    num_waiting_turns: float
    kv_cache_usage: float
    working_set_share: float
    cap: int | None


@dataclass(frozen=True)
class ReplayResult:
    """One run.

    Attributes:
        seed: Of the run.
        engine_version: vLLM's.
        rps: Brain turns that ended, per second.
        hit, hit_after_warm_up: Full-prefix hits of turns that are not first ones.
        lowest_window_hit_after_warm_up: Over the windows that begin after the warm-up.
        first_low_hit_s: End of the first window with a hit rate under 80%; None: none was.
        jain: Jain's index of the robots' completed episodes.
        fewest_episodes: Completed by the robot that completed fewest; Jain's index says little
            before each has done several.
        brain_latency_s, door_wait_s: Quantiles by name ("p50", "p90", "p99", "p999", "max").
        starved_fraction_worst: Of the robot that starved most; None without an action tier.
        controls: Counts of a policy's own controls by action ("raise", "lower", ...).
        is_partial: The run was interrupted.
        wall_s: Wall time that it took.
    """

    seed: int
    engine_version: str
    duration_s: float
    turns: int
    rps: float
    hit: float | None
    hit_after_warm_up: float | None
    lowest_window_hit_after_warm_up: float | None
    first_low_hit_s: float | None
    computed_prompt_tokens_per_min: float
    generated_tokens_per_min: float
    episodes_completed: int
    episodes_per_min: float
    jain: float
    fewest_episodes: int
    episodes_by_robot: tuple[int, ...]
    brain_latency_s: dict[str, float]
    door_wait_s: dict[str, float]
    windows: tuple[Window, ...]
    controls: dict[str, int]
    starved_fraction_worst: float | None
    is_partial: bool
    wall_s: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)
