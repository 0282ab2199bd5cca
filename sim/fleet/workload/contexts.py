"""How contexts grow: about 60k tokens by turn 5, then close to a straight line to the peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.fleet.workload.plans import EpisodePlan
from sim.fleet.workload.quantiles import QuantileCurve, median, normal_scores, ranked, strata
from sim.fleet.workload.suites import EPISODES_PER_SUITE, SUITES, Suite

#: The turn whose prompt the study's figure has at about 60k tokens.
EARLY_TURNS = 5
#: Longest prompt of all calls (facts.json, workload.input_tokens_per_call.max).
MOST_TOKENS = 214_700

# Fitted: the prompt of a first turn (instructions, tools, first pictures) and its spread; how
# unequal the next four turns' growth is. Together with the late turns they give P90 10,475 of new
# tokens.
_FIRST_TOKENS = 20_000
_FIRST_SPREAD = 0.06
_EARLY_SPREAD = 0.27
# Fitted: spread of the early context and of the later growth between episodes of a suite.
_CONTEXT_SPREAD = 0.04
_GROWTH_SPREAD = 0.06
_LONG_GROWTH_SPREAD = 0.29
_LONG_FOLLOWS_TURNS = 1.0

#: New tokens of a late turn over the mean of its episode's late turns. Two kinds of turn: a tool's
#: few words, and pictures. Fitted to P50 3,279 of new tokens and P50 25.5 of prompt over new tokens.
_LATE_SHAPE = QuantileCurve(
    (0.0, 0.35, 0.4, 0.5, 0.66, 0.8, 0.95, 1.0), (0.04, 0.12, 1.0, 1.35, 1.55, 1.65, 1.8, 2.4)
)
_LONG_LATE_SHAPE = QuantileCurve(
    (0.0, 0.4, 0.55, 0.61, 0.75, 0.9, 1.0), (0.04, 0.14, 0.7, 1.2, 2.3, 2.8, 4.5)
)
_LEAST_NEW_TOKENS = 60
#: After a zero-step gap, mostly perception, more is new.
_LOOK_BONUS = 0.6

_GOLDEN_RATIO = 0.6180339887498949
_ROUNDS = 12
_LONG_BOW = 0.15


def draw_new_tokens(
    plans: Sequence[EpisodePlan],
    steps: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """New tokens of each turn of each episode; suite by suite the medians are the study's."""
    early = _early_parts(len(plans), rng)
    drawn: list[np.ndarray] = []
    for suite in SUITES:
        own = [index for index, plan in enumerate(plans) if plan.suite is suite]
        drawn += _suite_tokens(
            suite,
            [_Episode(outputs[i], steps[i], early[i], suite is SUITES[-1], rng) for i in own],
            rng,
        )
    return drawn


def _early_parts(num: int, rng: np.random.Generator) -> np.ndarray:
    """Shares of the growth over the early turns. Shape (num, 4), rows of mean 1."""
    scores = normal_scores(strata(num * (EARLY_TURNS - 1), rng))
    parts = 1 + _EARLY_SPREAD * rng.permutation(scores).reshape(num, EARLY_TURNS - 1)
    return np.asarray(parts / parts.mean(axis=1, keepdims=True))


class _Episode:
    """Shares of an episode's growth: what is drawn once, whatever its sizes are then made."""

    def __init__(
        self,
        outputs: np.ndarray,
        steps: np.ndarray,
        early_parts: np.ndarray,
        is_long: bool,
        rng: np.random.Generator,
    ) -> None:
        self.outputs = outputs
        self.num_turns = len(outputs)
        self._early_parts = early_parts
        num_late = self.num_turns - EARLY_TURNS
        shape = (_LONG_LATE_SHAPE if is_long else _LATE_SHAPE)(strata(num_late, rng))
        looked = steps[EARLY_TURNS - 1 :] == 0
        even = (rng.random() + np.arange(num_late) * _GOLDEN_RATIO) % 1.0
        scores = normal_scores(even * 0.999 + 0.0005) + _LOOK_BONUS * looked
        self._late_parts = ranked(scores, shape / shape.mean())

    def new_tokens(self, first: float, early_context: float, peak: float, bow: float) -> np.ndarray:
        """With the prompt of the first turn, of turn 5 and of the last turn given."""
        outputs = self.outputs
        early = early_context - first - outputs[: EARLY_TURNS - 1].sum()
        late = peak - early_context - outputs[EARLY_TURNS - 1 : -1].sum()
        parts = self._late_parts * (1 + bow * np.linspace(1, -1, len(self._late_parts)))
        new = np.concatenate(
            (
                [first],
                early / len(self._early_parts) * self._early_parts,
                late / parts.sum() * parts,
            )
        )
        return np.maximum(np.rint(new), _LEAST_NEW_TOKENS).astype(int)

    def prompts(self, new: np.ndarray) -> np.ndarray:
        """Length of each turn's prompt."""
        before = np.concatenate(([0], self.outputs[:-1]))
        return np.cumsum(new + before)


def _suite_tokens(
    suite: Suite, episodes: Sequence[_Episode], rng: np.random.Generator
) -> list[np.ndarray]:
    first = _FIRST_TOKENS * _spread(_FIRST_SPREAD, rng)
    context = _spread(_CONTEXT_SPREAD, rng)
    growth = _spread(_GROWTH_SPREAD, rng)
    late_turns = np.array([episode.num_turns - EARLY_TURNS for episode in episodes])
    longest = int(np.argmax(late_turns)) if suite is SUITES[-1] else None
    if longest is not None:
        sc = normal_scores(strata(20))
        tz = np.empty(20)
        tz[np.argsort(late_turns + rng.random(20) * 0.1)] = sc
        growth = np.exp(
            _LONG_GROWTH_SPREAD
            * ranked(
                _LONG_FOLLOWS_TURNS * tz
                + np.sqrt(1 - _LONG_FOLLOWS_TURNS**2) * rng.permutation(sc),
                sc,
            )
        )
    early_level = suite.early_context
    slope = (suite.peak_context - early_level) / (suite.turns - EARLY_TURNS)
    drawn: list[np.ndarray] = []
    # Two medians, two unknowns; each follows its own almost in proportion.
    bow = _LONG_BOW if longest is not None else 0.0
    contexts = early_level * context
    for _ in range(_ROUNDS):
        peaks = contexts + slope * growth * late_turns
        if longest is not None:
            peaks = np.minimum(peaks, 0.97 * MOST_TOKENS)
            peaks[longest] = MOST_TOKENS
        drawn = [
            episode.new_tokens(*sizes, bow)
            for episode, *sizes in zip(episodes, first, contexts, peaks, strict=True)
        ]
        prompts = [e.prompts(new) for e, new in zip(episodes, drawn, strict=True)]
        slope += (suite.peak_context - median([p[-1] for p in prompts])) / np.median(late_turns)
        total = median([p.sum() for p in prompts])
        if longest is None:
            bow += 3.0 * (suite.total_input / total - 1)
            bow = min(max(bow, -0.5), 0.5)
        else:
            early_level *= (suite.total_input / total) ** 0.8
            contexts = early_level * context
    return drawn


def _spread(sigma: float, rng: np.random.Generator) -> np.ndarray:
    return np.exp(sigma * rng.permutation(normal_scores(strata(EPISODES_PER_SUITE))))
