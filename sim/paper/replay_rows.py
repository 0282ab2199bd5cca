"""Rows of a table from replays, beside the study's figures of the same fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.runner import Job
from sim.fleet.replay.settings import AdmissionChoice, EngineChoice, ReplaySettings
from sim.fleet.statistics import seed_mean
from sim.paper import study
from sim.paper.case import Workplace
from sim.paper.rows import SEEDS, Row, StudyValue, seed_row

BRAIN = "brain_tier"
#: How near a fleet that does not collapse has to come.
STABLE_RATIO = 0.06
STABLE_JAIN = 0.03
#: With full-prefix hits below it prefixes are being lost: a fleet is on its way over the cliff.
HEALTHY_HIT = 0.95
#: Runs of the study with a cap: 100 episodes at 5.00 a minute, and so on for all of them. Its AIMD
#: runs as well: 80 control records, one in 30 s, are two runs of 20 minutes.
CAPPED_S = 1200.0
#: Its sustained fleets without a cap.
SUSTAINED_S = 1800.0
#: Of a quick set: long enough to see that the machinery works, and for nothing else.
QUICK_S = 360.0
#: What vLLM 0.17.1 takes where an engine is made neither by the LLM class (16,384, which the
#: study's cliff fits) nor by the API server (8,192). The study does not say what its fleets ran
#: with, but only with these they collapse when its fleets did, and its usage gauge stays low
#: meanwhile; the case "sustained" shows the others.
STUDY_FLEET_STEP_TOKENS = 2048
#: The study names two pools, 4,270 and 4,396 blocks, and not which of its fleets ran on which. On
#: the larger one some of 24 robots' runs last for 30 minutes, as theirs did; on the other all
#: collapse within 12. Fleets that stay below the cliff do not tell them apart.
STUDY_FLEET_POOL_BLOCKS = 4396
#: Of every case with such fleets.
FITTED_NOTE = (
    "Not all of this is prediction: the steps of 2,048 tokens and the pool of 4,396 blocks were "
    "chosen by when N=24 collapses. What a further turn adds to a decode step, which no table of "
    "the study tells, is as much as it costs alone: the simplest choice, kept because N=20, "
    "N48_K12 and N48_K20 come out with it. No other row chose anything."
)
_VERSIONS = {"study": "vLLM 0.17.1", "installed": "installed vLLM"}


@dataclass(frozen=True)
class Quantity:
    """One column of the study's tables.

    Attributes:
        name: As in `study.json`.
        within: Of a fleet that does not collapse.
    """

    name: str
    unit: str
    value_of: Callable[[ReplayResult], float | None]
    within: float = STABLE_RATIO


RPS = Quantity("rps", "1/s", lambda run: run.rps)
HIT = Quantity("hit", "share", lambda run: run.hit)
EPISODES = Quantity("episodes_per_min", "1/min", lambda run: run.episodes_per_min)
JAIN = Quantity("jain", "index", lambda run: run.jain, STABLE_JAIN)
COMPUTED = Quantity(
    "computed_prompt_tokens_per_min",
    "tokens/min",
    lambda run: run.computed_prompt_tokens_per_min,
)
GENERATED = Quantity(
    "generated_tokens_per_min", "tokens/min", lambda run: run.generated_tokens_per_min
)
ALL = (RPS, EPISODES, COMPUTED, GENERATED, HIT, JAIN)


@dataclass(frozen=True)
class FleetRun:
    """A fleet of the study and the runs that stand for it here.

    Attributes:
        row: Its name in `study.json`.
        path: Where its figures are there.
        jobs: One for each seed.
        is_stable: It does not collapse; its figures have to come near the study's. Otherwise the
            study's have to lie among those of our seeds.
        variant: What differs from the other rows of this name.
        is_judged: False: a variant for comparison.

    Runs shorter than the study's are not judged, whatever `is_judged` says: they show that the
    machinery works.
    """

    row: str
    path: str
    jobs: tuple[Job, ...]
    is_stable: bool
    variant: str
    is_judged: bool = True

    @property
    def may_be_judged(self) -> bool:
        """It is meant to be compared, and long enough for that."""
        return self.is_judged and all(job.settings.duration_s >= CAPPED_S for job in self.jobs)

    def rows(self, results: Sequence[ReplayResult], quantities: Sequence[Quantity]) -> list[Row]:
        """One for each quantity that the study or we have something to say of."""
        return [
            seed_row(
                self.row,
                quantity.name,
                quantity.unit,
                study_value(f"{self.path}/{quantity.name}"),
                [quantity.value_of(result) for result in results],
                variant=self.variant,
                within=self._within(quantity),
            )
            for quantity in quantities
        ]

    def _within(self, quantity: Quantity) -> float | Literal["seeds"] | None:
        if not self.may_be_judged:
            return None
        return quantity.within if self.is_stable else SEEDS


def study_value(path: str) -> StudyValue:
    """The study's number or range; None: it gives none."""
    *outer, name = path.split("/")
    try:
        entry = study.value("/".join(outer))
    except InvalidArgumentError:
        return None
    return study.number(path) if isinstance(entry, dict) and name in entry else None


def engine(version: Literal["installed", "study"], **changes: Any) -> EngineChoice:
    """The engine of the study's fleets, in one version of vLLM or the other."""
    usual = {"pool_blocks": STUDY_FLEET_POOL_BLOCKS, "step_tokens": STUDY_FLEET_STEP_TOKENS}
    return EngineChoice(version, **{**usual, **changes})


def capped(cap: int) -> AdmissionChoice:
    """A static cap."""
    return AdmissionChoice("static-cap", {"cap": cap})


def jobs_of(settings: ReplaySettings, seeds: Sequence[int]) -> tuple[Job, ...]:
    """One for each seed."""
    return tuple(Job(settings, seed) for seed in seeds)


def variant_of(version: Literal["installed", "study"], words: str = "") -> str:
    """What a row's variant is called."""
    return ", ".join(part for part in (_VERSIONS[version], words) if part)


def run_all(workplace: Workplace, runs: Sequence[FleetRun], what: str) -> list[list[ReplayResult]]:
    """The results of each fleet, in the order of its seeds."""
    results = iter(workplace.replays([job for run in runs for job in run.jobs], what))
    return [[next(results) for _ in run.jobs] for run in runs]


def say_rows(workplace: Workplace, rows: Sequence[Row]) -> None:
    """Print each row."""
    for row in rows:
        over = seed_mean(row.per_seed)
        spread = "" if over is None or over.num_seeds < 2 else f" ({over.least:g}..{over.most:g})"
        ours = "-" if row.ours is None else f"{row.ours:.4g}"
        workplace.say(
            f"{row.row:12} {row.quantity:32} study {row.study!s:18} ours {ours}{spread} "
            f"[{row.variant}] {row.verdict}"
        )


def settings_json(runs: Sequence[FleetRun]) -> dict[str, Any]:
    """What a case was made with."""
    return {
        f"{run.row}, {run.variant}": {
            "seeds": [job.seed for job in run.jobs],
            "replay": run.jobs[0].settings.to_json(),
        }
        for run in runs
        if run.jobs
    }
