"""Outputs, and the study's three clocks: each with its quantiles, and their sums with theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.fleet.workload.gaps import NUM_INTERVALS
from sim.fleet.workload.quantiles import QuantileCurve, normal_scores, ranked, strata

#: Brain calls of all 80 episodes (facts.json, workload.brain_calls).
NUM_CALLS = 1862

_LEAST, _MOST = 0.5 / NUM_CALLS, 1 - 0.5 / NUM_CALLS

#: P50 144 is the study's. The mean is not: 27,000 generated tokens a minute at 2.40 requests/s are
#: 188 a request, which a log-normal of this spread has.
_OUTPUT_TOKENS = QuantileCurve((_LEAST, 0.5, _MOST), (11.0, 144.0, 1800.0), over_normal_scores=True)

#: P50 7.78, P90 13.84, maximum 48.26 s are the study's (three_clocks_s.brain_request_latency);
#: what lies under P50 is fitted to the sums.
_BRAIN_S = QuantileCurve(
    (_LEAST, 0.25, 0.5, 0.9, _MOST), (3.5, 6.2, 7.78, 13.84, 48.26), over_normal_scores=True
)
#: P50 8.40, P90 22.20 s are the study's (simulator_wall_gap); least and most are fitted to the
#: sums.
_WALL_S = QuantileCurve((_LEAST, 0.5, 0.9, _MOST), (1.5, 8.4, 22.2, 80.0), over_normal_scores=True)

# Rank correlations, fitted to the quantiles of the sums (brain_plus_env_step_gap,
# brain_plus_wall_gap). Independent clocks would give a P90 of brain + env gap 2% too high: a turn
# that thinks long is followed by a motion a little less often.
_BRAIN_WITH_STEPS = -0.15
_WALL_WITH_BRAIN = 0.08
_WALL_WITH_STEPS = 0.2
#: Not the study's: a long answer takes long.
_BRAIN_WITH_OUTPUT = 0.5

# A sequence that fills the cube evenly: the generalised golden ratio of three dimensions. Pairings
# drawn from it have the same joint quantiles for every seed, which independent draws do not.
_GOLDEN = 1.2207440846057596
_RATIOS = np.array([1 / _GOLDEN, 1 / _GOLDEN**2, 1 / _GOLDEN**3])


@dataclass(frozen=True)
class CallTimes:
    """Of each brain call, in the order of the study: an array per quantity, all of one length.

    Attributes:
        output_tokens: Whole.
        brain_s: Latency.
        wall_s: Until the next call; NaN after an episode's last one.
    """

    output_tokens: np.ndarray
    brain_s: np.ndarray
    wall_s: np.ndarray


def draw_times(steps: np.ndarray, rng: np.random.Generator) -> CallTimes:
    """Times of calls from the control steps that follow each of them.

    Args:
        steps: Of all calls; NaN after an episode's last one.
        rng: Shifts the sequence, and orders equal steps.
    """
    num = len(steps)
    has_gap = ~np.isnan(steps)
    follows = np.where(has_gap, steps, rng.permutation(np.resize(steps[has_gap], num)))
    order = np.lexsort((rng.random(num), follows))
    move = np.empty(num)
    move[order] = normal_scores(strata(num))
    even = (np.arange(num)[:, None] * _RATIOS + rng.random(3)) % 1.0
    noise = np.empty((num, 3))
    for column in range(3):
        noise[order, column] = normal_scores(strata(num)[np.argsort(np.argsort(even[:, column]))])
    output = noise[:, 0]
    brain = (
        _BRAIN_WITH_STEPS * move
        + _BRAIN_WITH_OUTPUT * output
        + _rest(_BRAIN_WITH_STEPS, _BRAIN_WITH_OUTPUT) * noise[:, 1]
    )
    wall = (
        _WALL_WITH_STEPS * move
        + _WALL_WITH_BRAIN * brain
        + _rest(_WALL_WITH_STEPS, _WALL_WITH_BRAIN) * noise[:, 2]
    )
    wall_s = np.full(num, np.nan)
    wall_s[has_gap] = ranked(wall[has_gap], _WALL_S(strata(NUM_INTERVALS)))
    return CallTimes(
        np.rint(ranked(output, _OUTPUT_TOKENS(strata(num)))).astype(int),
        ranked(brain, _BRAIN_S(strata(num))),
        wall_s,
    )


def _rest(*shares: float) -> float:
    return float(np.sqrt(1 - sum(share**2 for share in shares)))
