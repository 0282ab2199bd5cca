"""How contexts grow: about 60k tokens by turn 5, then close to a straight line to the peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.fleet.workload.plans import EpisodePlan
from sim.fleet.workload.quantiles import (
    FloatArray,
    QuantileCurve,
    median,
    normal_scores,
    ranked,
    strata,
)
from sim.fleet.workload.suites import EPISODES_PER_SUITE, SUITES, Suite

#: The turn whose prompt the study's figure has at about 60k tokens.
EARLY_TURNS = 5
#: Longest prompt of all calls (facts.json, workload.input_tokens_per_call.max).
MOST_TOKENS = 214_700

# Fitted: the prompt of a first turn (instructions, tools, first pictures) and its spread; how
# unequal the next four turns' growth is. With them P90 of new tokens is 10,475.
_FIRST_TOKENS = 20_000
_FIRST_SPREAD = 0.06
_EARLY_SPREAD = 0.27
# Fitted: spread of the early context and of the later growth between episodes of a suite. In the
# long suite the longer an episode is the more it grows a turn: only so are 10% of all prompts over
# 131k tokens while half of its episodes end under 136k.
_CONTEXT_SPREAD = 0.04
_GROWTH_SPREAD = 0.06
_LONG_GROWTH_SPREAD = 0.29
#: Fitted, to the same P90: growth of the long suite slows down a little on the way.
_LONG_BOW = 0.15

# New tokens of a late turn over the mean of its episode's late turns. Two kinds of turn: a tool's
# few words, and pictures. Fitted to P50 3,279 of new tokens and P50 25.5 of prompt over new
# tokens; one shape for all suites cannot have both.
_LATE_SHAPE = QuantileCurve(
    (0.0, 0.35, 0.4, 0.5, 0.66, 0.8, 0.95, 1.0), (0.04, 0.12, 1.0, 1.35, 1.55, 1.65, 1.8, 2.4)
)
_LONG_LATE_SHAPE = QuantileCurve(
    (0.0, 0.4, 0.55, 0.61, 0.75, 0.9, 1.0), (0.04, 0.14, 0.7, 1.2, 2.3, 2.8, 4.5)
)
_LEAST_NEW_TOKENS = 60
#: After a zero-step gap, mostly perception, more is new.
_LOOK_BONUS = 0.6

#: Multiples of it fill a circle evenly.
_GOLDEN_RATIO = 0.6180339887498949
_ROUNDS = 10
#: How strongly a growth is bent for a total that is too small by its own size; and at most.
_BOW_PER_SHARE = 3.0
_MOST_BOW = 0.5


def draw_new_tokens(
    plans: Sequence[EpisodePlan],
    steps: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """New tokens of each turn of each episode; suite by suite the medians are the study's.

    Args:
        plans: Suite by suite.
        steps: Control steps of each episode's intervals.
        outputs: Tokens generated at each episode's turns.
        rng: Draws.
    """
    early_parts = _early_parts(len(plans), rng)
    drawn: list[np.ndarray] = []
    for suite in SUITES:
        shape = _LONG_LATE_SHAPE if suite is SUITES[-1] else _LATE_SHAPE
        episodes = [
            _Episode(outputs[i], steps[i], early_parts[i], shape, rng)
            for i, plan in enumerate(plans)
            if plan.suite is suite
        ]
        drawn += _suite_tokens(suite, episodes, rng)
    return drawn


def prompt_lengths(new_tokens: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Of each turn of an append-only episode."""
    return np.cumsum(new_tokens + np.concatenate(([0], outputs[:-1])))


def _early_parts(num: int, rng: np.random.Generator) -> FloatArray:
    """Shares of the growth over the early turns. Shape (num, 4), rows of mean 1."""
    scores = normal_scores(strata(num * (EARLY_TURNS - 1), rng))
    parts = 1 + _EARLY_SPREAD * rng.permutation(scores).reshape(num, EARLY_TURNS - 1)
    return np.asarray(parts / parts.mean(axis=1, keepdims=True), dtype=np.float64)


class _Episode:
    """Shares of an episode's growth: drawn once, whatever its sizes are then made."""

    def __init__(
        self,
        outputs: np.ndarray,
        steps: np.ndarray,
        early_parts: FloatArray,
        late_shape: QuantileCurve,
        rng: np.random.Generator,
    ) -> None:
        self.num_late = len(outputs) - EARLY_TURNS
        self._outputs = outputs
        self._early_outputs = outputs[: EARLY_TURNS - 1].sum()
        self._late_outputs = outputs[EARLY_TURNS - 1 : -1].sum()
        self._early_parts = early_parts / early_parts.sum()
        # Every stretch of an episode has small and large turns in the same proportion: growth is
        # close to a straight line, as in the study's figure.
        turns = np.arange(self.num_late, dtype=np.float64)
        even: FloatArray = (rng.random() + turns * _GOLDEN_RATIO) % 1.0
        looked = steps[EARLY_TURNS - 1 :] == 0
        scores = normal_scores(0.001 + 0.998 * even) + _LOOK_BONUS * looked
        self._late_parts = ranked(scores, late_shape(strata(self.num_late, rng)))
        self._slowing = np.linspace(1.0, -1.0, self.num_late)

    def new_tokens(self, first: float, early_context: float, peak: float, bow: float) -> np.ndarray:
        """With the prompts of the first turn, of turn 5 and of the last turn given.

        `bow` over 0: what is new is more at first than towards the end.
        """
        early = early_context - first - self._early_outputs
        late = peak - early_context - self._late_outputs
        parts = self._late_parts * (1 + bow * self._slowing)
        new = np.concatenate(([first], early * self._early_parts, late / parts.sum() * parts))
        return np.maximum(np.rint(new), _LEAST_NEW_TOKENS).astype(int)

    def prompts(self, new_tokens: np.ndarray) -> np.ndarray:
        """Length of each turn's prompt."""
        return prompt_lengths(new_tokens, self._outputs)


def _suite_tokens(
    suite: Suite, episodes: Sequence[_Episode], rng: np.random.Generator
) -> list[np.ndarray]:
    """Two medians, peak context and total input, and two unknowns that follow them closely.

    The growth a turn follows the peak; the total follows the bow of the growth, and in the long
    suite the early context, because its bow has to serve P90 of all prompts.
    """
    is_long = suite is SUITES[-1]
    late_turns = np.array([episode.num_late for episode in episodes])
    first = _FIRST_TOKENS * _around_one(_FIRST_SPREAD, rng)
    contexts = suite.early_context * _around_one(_CONTEXT_SPREAD, rng)
    growth = _around_one(_LONG_GROWTH_SPREAD if is_long else _GROWTH_SPREAD, rng)
    if is_long:
        growth = ranked(late_turns.astype(float), growth)
    slope = (suite.peak_context - suite.early_context) / (suite.turns - EARLY_TURNS)
    bow = _LONG_BOW if is_long else 0.0
    drawn: list[np.ndarray] = []
    for _ in range(_ROUNDS):
        peaks = contexts + slope * growth * late_turns
        if is_long:
            peaks = np.minimum(peaks, 0.97 * MOST_TOKENS)
            peaks[int(np.argmax(late_turns))] = MOST_TOKENS
        drawn = [
            episode.new_tokens(*sizes, bow)
            for episode, sizes in zip(
                episodes, zip(first, contexts, peaks, strict=True), strict=True
            )
        ]
        prompts = [e.prompts(new) for e, new in zip(episodes, drawn, strict=True)]
        slope += (suite.peak_context - median([p[-1] for p in prompts])) / median(late_turns)
        lacking = suite.total_input / median([p.sum() for p in prompts])
        if is_long:
            contexts = contexts * lacking**0.8
        else:
            bow = float(np.clip(bow + _BOW_PER_SHARE * (lacking - 1), -_MOST_BOW, _MOST_BOW))
    return drawn


def _around_one(sigma: float, rng: np.random.Generator) -> FloatArray:
    """One factor for each episode of a suite, log-normal, in an order drawn."""
    return np.exp(sigma * rng.permutation(normal_scores(strata(EPISODES_PER_SUITE))))
