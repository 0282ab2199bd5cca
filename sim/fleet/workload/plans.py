"""How long each of the study's 80 episodes is, before what happens in it is drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.fleet.workload.quantiles import normal_scores, ranked, strata, two_sided, whole
from sim.fleet.workload.suites import CONTROL_HZ, EPISODES_PER_SUITE, SEEDS_PER_TASK, SUITES, Suite

#: A turn that runs the action policy executes at most 30 chunks of 5 steps: the study's longest
#: interval, 7.5 s at 20 Hz.
CHUNK_STEPS = 5

_LEAST_TURNS = 8
#: Episodes with many turns also move more and run more chunks, though not in step.
_ENV_FOLLOWS_TURNS = 0.92
_CHUNKS_FOLLOW_ENV = 0.9
#: The two seeds of a task are of similar length: share of the length that is the task's.
_TASK_SHARE = 0.7


@dataclass(frozen=True)
class EpisodePlan:
    """Sizes of one episode.

    Attributes:
        task, seed: Of the suite.
        env_steps: Of all its intervals together, nearly.
        chunks: Of all its turns.
    """

    suite: Suite
    task: int
    seed: int
    success: bool
    turns: int
    env_steps: float
    chunks: int

    @property
    def intervals(self) -> int:
        """Between two turns each."""
        return self.turns - 1


def draw_plans(rng: np.random.Generator) -> list[EpisodePlan]:
    """All 80, suite by suite, task by task. Every seed hands the same sizes to other episodes."""
    return [plan for suite in SUITES for plan in _suite_plans(suite, rng)]


def _suite_plans(suite: Suite, rng: np.random.Generator) -> list[EpisodePlan]:
    num = EPISODES_PER_SUITE
    tasks = np.arange(num) // SEEDS_PER_TASK
    task_scores = rng.standard_normal(num // SEEDS_PER_TASK)[tasks]
    length_scores = _blend(task_scores, _TASK_SHARE, rng)
    turns = ranked(
        length_scores,
        whole(
            two_sided(suite.turns, suite.total_turns, suite.turn_spread, num),
            suite.total_turns,
            _LEAST_TURNS,
        ).astype(float),
    )
    env_scores = _blend(_as_scores(turns, rng), _ENV_FOLLOWS_TURNS, rng)
    env_s = ranked(
        env_scores, two_sided(suite.env_advance_s, suite.total_env_s, suite.env_spread, num)
    )
    chunk_scores = _blend(_as_scores(env_s, rng), _CHUNKS_FOLLOW_ENV, rng)
    chunks = ranked(
        chunk_scores,
        whole(
            two_sided(suite.chunks, suite.total_chunks, suite.chunk_spread, num),
            suite.total_chunks,
            1,
        ).astype(float),
    )
    # The study does not say which ones failed; the longest did here, as episodes do that give up.
    failed = set(np.argsort(-length_scores)[: num - suite.successes].tolist())
    return [
        EpisodePlan(
            suite,
            int(tasks[index]),
            index % SEEDS_PER_TASK,
            index not in failed,
            int(turns[index]),
            float(env_s[index] * CONTROL_HZ),
            int(chunks[index]),
        )
        for index in range(num)
    ]


def _as_scores(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    order = np.lexsort((rng.random(len(values)), values))
    scores = np.empty(len(values))
    scores[order] = normal_scores(strata(len(values)))
    return scores


def _blend(scores: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_normal(len(scores))
    blended: np.ndarray = share * scores + np.sqrt(1 - share**2) * noise
    return blended
