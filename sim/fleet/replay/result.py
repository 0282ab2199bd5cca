"""What a replay gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from robot_sdk.errors import InvalidArgumentError


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
class EpisodeTimes:
    """One episode that was admitted, as its robot saw it.

    Attributes:
        asked_s: When it asked at the door.
        turn_latencies_s: Of its turns in order, network included, to a millisecond.
        is_complete: False: it was still running at the end, or was cut off.
    """

    task_family: str
    asked_s: float
    door_wait_s: float
    turn_latencies_s: tuple[float, ...]
    is_complete: bool


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
        episodes_by_robot: Completed, in the order of the robots' numbers.
        brain_latency_s, door_wait_s: Quantiles by name ("p50", "p90", "p99", "p999", "max");
            None where the sample is too small for one. Of turns that were answered and of episodes
            that were admitted: those that still waited at the end are not in them.
        controls: Counts of a policy's own controls by action ("raise", "lower", ...), and of turns
            that it let wait ("held_turns").
        starved_fraction_worst: Of the robot that starved most; None without an action tier.
        starved_fraction: Of all robots' ticks; likewise.
        policy_share: Part of the time of robots inside in which their policy ran; likewise.
        refreshes: Prefixes that the engine was asked to touch; None: out of sight, in a running
            server.
        refreshes_lost: Of them, those it had lost. They are no misses of `hit`; what was computed
            for them is in `computed_prompt_tokens_per_min`.
        is_partial: The run was interrupted.
        wall_s: Wall time that it took.
        episode_times: Every admitted episode, in order of admission.
        warnings: Why it says less than it seems to, for people.
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
    brain_latency_s: dict[str, float | None]
    door_wait_s: dict[str, float | None]
    windows: tuple[Window, ...]
    controls: dict[str, int]
    starved_fraction_worst: float | None
    is_partial: bool
    wall_s: float
    episode_times: tuple[EpisodeTimes, ...] = ()
    warnings: tuple[str, ...] = ()
    starved_fraction: float | None = None
    policy_share: float | None = None
    refreshes: int | None = None
    refreshes_lost: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ReplayResult:
        """What `to_json` gave.

        Raises:
            InvalidArgumentError: It is something else.
        """
        try:
            values = dict(content)
            values["windows"] = tuple(Window(**window) for window in values["windows"])
            values["episode_times"] = tuple(
                EpisodeTimes(**{**times, "turn_latencies_s": tuple(times["turn_latencies_s"])})
                for times in values["episode_times"]
            )
            values["episodes_by_robot"] = tuple(values["episodes_by_robot"])
            values["warnings"] = tuple(values["warnings"])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise InvalidArgumentError(f"not the result of a replay: {error!r}") from None
