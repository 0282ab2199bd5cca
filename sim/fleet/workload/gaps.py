"""What the robot does between two turns: how many control steps, how many chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.fleet.workload.plans import CHUNK_STEPS, EpisodePlan
from sim.fleet.workload.quantiles import QuantileCurve, strata

#: Intervals of all 80 episodes that move nothing (facts.json, three_clocks_s.env_step_gap).
NUM_ZERO_STEP = 688
#: All intervals: 1,862 turns less the 80 that are the last of an episode.
NUM_INTERVALS = 1782
#: 2,309.05 s at 20 Hz: a whole number.
TOTAL_STEPS = 46_181

_ZERO_SHARE = NUM_ZERO_STEP / NUM_INTERVALS
#: P50 1.00 s, P90 3.10 s, maximum 7.5 s are the study's. The least, 3.7 steps, is fitted to the
#: total; with straight logarithms between these points it comes out by itself.
_STEPS = QuantileCurve((_ZERO_SHARE, 0.5, 0.9, 1.0), (3.7, 20.0, 62.0, 150.0))

#: An episode begins by looking around: the gaps after its first turns are mostly zero-step.
LOOK_TURNS = 4
_LOOK_BONUS = 1.1

_MOST_SWAPS = 2000
_ENOUGH_STEPS = 1.0

#: Turns that run the action policy, of all episodes (facts.json, workload.action_tool_entries).
NUM_ENTRIES = 216


def draw_steps(plans: Sequence[EpisodePlan], rng: np.random.Generator) -> list[np.ndarray]:
    """Control steps of each episode's intervals, in order."""
    shares = _share_out(plans, _pool(rng), rng)
    return [_in_order(steps, rng) for steps in shares]


def _pool(rng: np.random.Generator) -> np.ndarray:
    """Steps of all intervals that move, largest first; they add up to the study's total."""
    num = NUM_INTERVALS - NUM_ZERO_STEP
    steps = np.rint(_STEPS(_ZERO_SHARE + (1 - _ZERO_SHARE) * strata(num, rng))).astype(int)
    steps = np.sort(steps)[::-1]
    steps[0] = 150
    # Between P50 and P90, away from both, one step up or down shows nowhere but in the sum.
    free = np.arange(num // 4, num // 2)
    missing = TOTAL_STEPS - int(steps.sum())
    changed = rng.choice(free, abs(missing), replace=abs(missing) > len(free))
    np.add.at(steps, changed, np.sign(missing))
    return np.sort(steps)[::-1]


def _share_out(
    plans: Sequence[EpisodePlan], pool: np.ndarray, rng: np.random.Generator
) -> list[list[int]]:
    """Large ones first, each to an episode drawn by the steps that it still lacks."""
    lacking = np.array([plan.env_steps for plan in plans])
    lacking *= pool.sum() / lacking.sum()
    room = np.array([plan.intervals for plan in plans])
    shares: list[list[int]] = [[] for _ in plans]
    for steps in pool:
        weights = np.where(room > 0, np.maximum(lacking - 0.5 * steps, 0.0), 0.0)
        if weights.sum() == 0:
            weights = np.where(room > 0, 1.0, 0.0)
        chosen = int(rng.choice(len(plans), p=weights / weights.sum()))
        shares[chosen].append(int(steps))
        lacking[chosen] -= steps
        room[chosen] -= 1
    for share, empty in zip(shares, room, strict=True):
        share.extend([0] * int(empty))
    _even_out(shares, lacking)
    return shares


def _even_out(shares: list[list[int]], lacking: np.ndarray) -> None:
    """Swap intervals between who has most too much and who lacks most, until that is little."""
    for _ in range(_MOST_SWAPS):
        rich, poor = int(np.argmin(lacking)), int(np.argmax(lacking))
        wanted = min(-lacking[rich], lacking[poor])
        if wanted < _ENOUGH_STEPS:
            return
        given = np.array(shares[rich])[:, None]
        taken = np.array(shares[poor])[None, :]
        best = int(np.argmin(np.abs(given - taken - wanted)))
        one, other = divmod(best, taken.shape[1])
        moved = shares[rich][one] - shares[poor][other]
        shares[rich][one], shares[poor][other] = shares[poor][other], shares[rich][one]
        lacking[rich] += moved
        lacking[poor] -= moved


def _in_order(steps: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    values = np.array(steps)
    scores = rng.random(len(values))
    scores[:LOOK_TURNS] += _LOOK_BONUS
    num_zero = int((values == 0).sum())
    is_zero = np.zeros(len(values), dtype=bool)
    is_zero[np.argsort(-scores)[:num_zero]] = True
    ordered = np.zeros(len(values), dtype=int)
    ordered[~is_zero] = rng.permutation(values[values > 0])
    return ordered


def draw_chunks(
    plans: Sequence[EpisodePlan], steps: Sequence[np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Chunks of each interval, five steps each; as many intervals have some as the study says."""
    likely = [_by_likelihood(own, rng) for own in steps]
    needed = [
        _fewest(plan.chunks, own // CHUNK_STEPS, order)
        for plan, own, order in zip(plans, steps, likely, strict=True)
    ]
    entries = np.array(needed)
    while entries.sum() < NUM_ENTRIES:
        room = [
            np.sqrt(plan.chunks) / have
            if have < min(plan.chunks, (own >= CHUNK_STEPS).sum())
            else 0
            for plan, own, have in zip(plans, steps, entries, strict=True)
        ]
        entries[int(np.argmax(room))] += 1
    return [
        _spread(plan.chunks, own // CHUNK_STEPS, order[:num], rng)
        for plan, own, order, num in zip(plans, steps, likely, entries, strict=True)
    ]


def _by_likelihood(steps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Intervals of an episode, the likeliest to be the policy's first: longer ones rather."""
    scores = 2 * np.log(np.maximum(steps, 1)) + rng.gumbel(size=len(steps))
    return np.argsort(np.where(steps >= CHUNK_STEPS, -scores, np.inf))


def _fewest(chunks: int, capacity: np.ndarray, order: np.ndarray) -> int:
    """How many of the first intervals in an order hold so many chunks."""
    return int(np.searchsorted(np.cumsum(capacity[order]), chunks)) + 1


def _spread(
    chunks: int, capacity: np.ndarray, entries: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    spread = np.zeros(len(capacity), dtype=int)
    spread[entries] = np.minimum(1, capacity[entries])
    while spread.sum() < chunks:
        room = np.zeros(len(capacity))
        room[entries] = capacity[entries] - spread[entries]
        spread[int(rng.choice(len(room), p=room / room.sum()))] += 1
    return spread
