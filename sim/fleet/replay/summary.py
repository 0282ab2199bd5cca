"""From the counts of a run to its result."""

from __future__ import annotations

from collections.abc import Sequence

from server.core.admission import AdmissionPolicy, AimdAdmission
from server.core.residency import LedgerTotals
from sim.fleet.action_time import ActionTime
from sim.fleet.replay.result import ReplayResult, Window
from sim.fleet.replay.tally import Tally
from sim.fleet.statistics import WINDOW_S, first_low_hit_s, jain_index, quantiles


def summarise(
    tally: Tally,
    policy: AdmissionPolicy | None,
    *,
    totals: LedgerTotals | None = None,
    seed: int,
    engine_version: str,
    duration_s: float,
    is_partial: bool,
    wall_s: float,
    action: ActionTime | None = None,
) -> ReplayResult:
    """The result of a run that ended at `duration_s`.

    Args:
        tally: What was counted.
        policy: Whose controls are counted; None: it is out of reach, in a running server.
        totals: Of the prefix ledger; None likewise.
        seed: See `ReplayResult`, also for the four that follow.
        engine_version: vLLM's.
        duration_s: Virtual seconds.
        is_partial: It was interrupted.
        wall_s: What it took.
        action: The action tier; None: there was none.
    """
    total, windows = tally.total, tally.windows(duration_s)
    per_min = 60.0 / duration_s if duration_s else 0.0
    episodes = tuple(tally.episodes_by_robot[robot] for robot in sorted(tally.episodes_by_robot))
    return ReplayResult(
        seed=seed,
        engine_version=engine_version,
        duration_s=duration_s,
        turns=total.turns,
        rps=total.turns / duration_s if duration_s else 0.0,
        hit=total.hit,
        hit_after_warm_up=tally.after_warm_up.hit,
        lowest_window_hit_after_warm_up=_lowest_hit(windows, tally.warm_up_s),
        first_low_hit_s=first_low_hit_s((window.end_s, window.hit) for window in _whole(windows)),
        computed_prompt_tokens_per_min=total.computed_tokens * per_min,
        generated_tokens_per_min=total.generated_tokens * per_min,
        episodes_completed=total.episodes,
        episodes_per_min=total.episodes * per_min,
        jain=jain_index(episodes),
        fewest_episodes=min(episodes, default=0),
        episodes_by_robot=episodes,
        brain_latency_s=quantiles(tally.latencies_s),
        door_wait_s=quantiles(tally.door_waits_s),
        windows=windows,
        controls=_controls(policy, tally),
        starved_fraction_worst=None if action is None else action.worst_starved_fraction,
        is_partial=is_partial,
        wall_s=wall_s,
        episode_times=tuple(episode.times() for episode in tally.episodes),
        warnings=(),
        starved_fraction=None if action is None else action.starved_fraction,
        policy_share=None if action is None else _policy_share(action, tally, duration_s),
        refreshes=None if totals is None else totals.refreshes_found + totals.refreshes_lost,
        refreshes_lost=None if totals is None else totals.refreshes_lost,
    )


def _policy_share(action: ActionTime, tally: Tally, duration_s: float) -> float:
    inside_s = tally.mean_active * duration_s
    return action.open_s / inside_s if inside_s else 0.0


def _lowest_hit(windows: Sequence[Window], warm_up_s: float) -> float | None:
    hits = [window.hit for window in _whole(windows) if window.start_s >= warm_up_s]
    return min((hit for hit in hits if hit is not None), default=None)


def _whole(windows: Sequence[Window]) -> Sequence[Window]:
    """Without a last one that was cut short, in which a handful of turns would be a hit rate."""
    whole = [window for window in windows if window.end_s - window.start_s >= WINDOW_S]
    return whole or windows


def _controls(policy: AdmissionPolicy | None, tally: Tally) -> dict[str, int]:
    if policy is None:
        return {}
    controls = {"held_turns": len(tally.held_turns)}
    if isinstance(policy, AimdAdmission):
        controls |= {
            "raise": policy.num_raised,
            "lower": policy.num_lowered,
            "hold": policy.num_controls - policy.num_raised - policy.num_lowered,
        }
    return controls
