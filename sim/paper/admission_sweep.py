"""What the cells of the admission sweep gave, and how policies compare over the same seeds."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sim.fleet.replay.result import ReplayResult
from sim.paper.admission_cells import NUM_ROBOTS, Cell, Mix


@dataclass
class Sweep:
    """Results by cell and seed; all of them, or as many as there are so far."""

    cells: Sequence[Cell]
    _runs: dict[tuple[str, str], dict[int, ReplayResult]] = field(default_factory=dict)

    def add(self, cell: Cell, seed: int, result: ReplayResult) -> None:
        """A whole run; one that was cut off is left out."""
        if not result.is_partial:
            self._runs.setdefault((cell.row, cell.policy), {})[seed] = result

    def runs(self, cell: Cell) -> dict[int, ReplayResult]:
        """By seed, in rising order."""
        return dict(sorted(self._runs.get((cell.row, cell.policy), {}).items()))

    def cell(self, mix: Mix, policy: str, robots: int = NUM_ROBOTS) -> Cell | None:
        """One that has results; None: there is none."""
        for cell in self.cells:
            if (cell.mix, cell.policy, cell.num_robots) == (mix, policy, robots):
                return cell if self.runs(cell) else None
        return None

    def caps(self, mix: Mix, robots: int) -> list[Cell]:
        """Caps that such a fleet may be given, with results.

        Where somebody waits at the door a cap is the same for every fleet, so that the large
        fleet's runs stand for it; otherwise it has runs of its own.
        """
        return [
            cell
            for cell in self.cells
            if cell.mix == mix
            and cell.is_cap
            and not cell.is_check
            and (
                cell.num_robots == robots or (cell.num_robots == NUM_ROBOTS and _cap(cell) < robots)
            )
            and self.runs(cell)
        ]

    def best_cap(self, mix: Mix, robots: int = NUM_ROBOTS, quantity: str = "rps") -> Cell | None:
        """Most of a quantity among the caps that have most seeds; None: no cap has a result."""
        caps = self.caps(mix, robots)
        if not caps:
            return None
        most = max(len(self.runs(cell)) for cell in caps)
        return max(
            (cell for cell in caps if len(self.runs(cell)) == most),
            key=lambda cell: mean_of(self.runs(cell).values(), quantity),
        )

    def share(self, cell: Cell, of: Cell, quantity: str) -> tuple[float, int] | None:
        """A quantity's mean over another cell's, and over how many seeds: those that both have."""
        mine, theirs = self.runs(cell), self.runs(of)
        common = sorted(set(mine) & set(theirs))
        if not common:
            return None
        whole = mean_of([theirs[seed] for seed in common], quantity)
        if whole == 0.0:
            return None
        return mean_of([mine[seed] for seed in common], quantity) / whole, len(common)

    def share_by_seed(self, cell: Cell, of: Cell, quantity: str) -> tuple[float, ...]:
        """The same seed by seed, over those that both have: both ran the same episodes."""
        mine, theirs = self.runs(cell), self.runs(of)
        return tuple(
            getattr(mine[seed], quantity) / whole
            for seed in sorted(set(mine) & set(theirs))
            if (whole := getattr(theirs[seed], quantity))
        )


def mean_of(results: Collection[ReplayResult], quantity: str) -> float:
    """Over runs; `quantity` is one of their numbers."""
    return math.fsum(getattr(result, quantity) for result in results) / len(results)


def lowest_hit(results: Collection[ReplayResult]) -> float:
    """After the warm-up, of the worst run."""
    return min(result.hit_after_warm_up or 0.0 for result in results)


def mean_wait_s(results: Collection[ReplayResult]) -> float | None:
    """P99 at the door, mean over the runs in which enough came in to have one."""
    waits = [result.door_wait_s.get("p99") for result in results]
    known = [wait for wait in waits if wait is not None]
    return math.fsum(known) / len(known) if known else None


def _cap(cell: Cell) -> int:
    cap = cell.admission.settings["cap"]
    assert isinstance(cap, int)
    return cap
