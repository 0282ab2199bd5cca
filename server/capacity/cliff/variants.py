"""What is compared: versions of vLLM, snapshots kept, and size of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from server.capacity.cliff import published
from server.capacity.cliff.protocol import WARM_UPS, Cell, Outcome, WarmUp

#: Steps that are tried; the study does not say which it used. 16,384 and 8,192 are vLLM 0.17's own
#: defaults on a GPU of 70 GiB or more, for the LLM class and for the API server.
STEPS_TOKENS = (8_192, 16_384, 32_768)
STUDY_STEP_TOKENS = 16_384
#: Between "only the latest" and "every one": a snapshot in 20 blocks, as far apart as the ends of
#: steps of 16,384 tokens.
INTERVAL_TOKENS = 20 * published.BLOCK_TOKENS


@dataclass
class Variant:
    """One engine with one set of settings, and what it gave.

    Attributes:
        is_study_version: vLLM 0.17.1 instead of the installed one.
        retention_tokens: See `EngineSettings`.
    """

    is_study_version: bool
    retention_tokens: int | None
    step_tokens: int = STUDY_STEP_TOKENS
    version: str = ""
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def name(self) -> str:
        """For tables and pictures."""
        if self.retention_tokens is None:
            kept = "every snapshot"
        elif self.retention_tokens == 0:
            kept = "latest snapshot"
        else:
            kept = f"a snapshot in {self.retention_tokens:,}"
        return f"vLLM {self.version}, {kept}, steps of {self.step_tokens:,}"

    def cells(
        self, pools_blocks: Sequence[int], sessions: Sequence[int], num_rounds: int
    ) -> Iterator[Cell]:
        """Its cells."""
        for pool_blocks in pools_blocks:
            for warm_up in WARM_UPS:
                for num_sessions in sessions:
                    yield Cell(
                        pool_blocks=pool_blocks,
                        num_sessions=num_sessions,
                        warm_up=warm_up,
                        step_tokens=self.step_tokens,
                        retention_tokens=self.retention_tokens,
                        num_rounds=num_rounds,
                    )

    def at(self, pool_blocks: int, warm_up: WarmUp, num_sessions: int) -> Outcome | None:
        """The outcome of one cell; None if it was not run."""
        for outcome in self.curve(pool_blocks, warm_up):
            if outcome.cell.num_sessions == num_sessions:
                return outcome
        return None

    def curve(self, pool_blocks: int, warm_up: WarmUp) -> list[Outcome]:
        """Outcomes by rising number of sessions."""
        return sorted(
            (
                outcome
                for outcome in self.outcomes
                if outcome.cell.pool_blocks == pool_blocks and outcome.cell.warm_up == warm_up
            ),
            key=lambda outcome: outcome.cell.num_sessions,
        )

    def most_kept(self, pool_blocks: int, warm_up: WarmUp) -> int | None:
        """Most sessions up to which all keep their whole prefix. None: not even the fewest do."""
        most = None
        for outcome in self.curve(pool_blocks, warm_up):
            if outcome.survival < 1.0:
                break
            most = outcome.cell.num_sessions
        return most

    def agreeing_points(self) -> tuple[int, int]:
        """Published points that it agrees with, and how many of them were run."""
        run = [
            (point, outcome)
            for point in published.POINTS
            if (outcome := self.at(point.pool_blocks, point.warm_up, point.num_sessions))
        ]
        return sum(point.survival == outcome.survival for point, outcome in run), len(run)


def variants(study_folder: Path | None) -> list[Variant]:
    """All of them; those of the study's version where its folder is given."""
    found = [
        Variant(False, 0),
        Variant(False, INTERVAL_TOKENS),
        *(Variant(False, None, step_tokens) for step_tokens in STEPS_TOKENS),
    ]
    if study_folder is not None:
        found += [Variant(True, None, step_tokens) for step_tokens in STEPS_TOKENS]
    return found
