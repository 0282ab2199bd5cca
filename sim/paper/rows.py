"""A figure of the study beside ours, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robot_sdk.errors import InvalidArgumentError

#: A number; or the range of several runs, where None is an open end: (32, None) is 32 or more.
StudyValue = float | tuple[float | None, float | None] | None
Kind = Literal["simulated", "measured", "computed"]
Verdict = Literal["inside", "outside", "not judged", "not run"]

#: Of `Row.within`: the study's value, or both ends of its range, has to lie in the range of our
#: seeds. A seed without a value never reached one within its run: that end of the range is open.
SEEDS: Literal["seeds"] = "seeds"
#: Shares and indices: two hit rates of 0.98 and 1.00 are 0.02 apart, not 2%.
ABSOLUTE_UNITS = ("share", "index")


@dataclass(frozen=True)
class Row:
    """One quantity of one configuration.

    Attributes:
        row: The configuration, named as in `study.json`: "N48_K20".
        quantity: "rps", "hit", "episodes_per_min", "jain", ...
        unit: "1/s", "tokens/min", "s", ...; "share" and "index" are compared by difference, all
            others by ratio; "" is a plain number.
        study: The study's value, the range of its runs, or None: it has none. Of a goal, what was
            asked for.
        ours: Mean over our seeds; None: it was not run here.
        per_seed: In the order of the seeds; empty: nothing in it depends on a seed.
        kind: "simulated" in virtual time, "measured" on a clock, or "computed" from a rule.
        note: What a reader must know to read the difference.
        variant: What differs from other rows of the same name, for example "vLLM 0.32.0".
        within: How far apart they may be: a ratio or a difference as the unit says, or "seeds";
            None: not judged.
        is_goal: It is set beside a goal of this project and not beside the study.
    """

    row: str
    quantity: str
    unit: str
    study: StudyValue
    ours: float | None
    per_seed: tuple[float | None, ...] = ()
    kind: Kind = "simulated"
    note: str = ""
    variant: str = ""
    within: float | Literal["seeds"] | None = None
    is_goal: bool = False

    @property
    def is_absolute(self) -> bool:
        """The difference is in the row's unit, not a ratio."""
        return self.unit in ABSOLUTE_UNITS or 0.0 in self._bounds()

    @property
    def difference(self) -> float | None:
        """Ours from the study's: from its number, or from the nearer end of its range; 0 within it.

        A ratio less 1, or a difference where `is_absolute`. None: one of the two is not there.
        """
        if self.study is None or self.ours is None:
            return None
        low, high = self._bounds()
        nearest = min(max(self.ours, low), high)
        apart = self.ours - nearest
        return apart if self.is_absolute or apart == 0.0 else apart / abs(nearest)

    @property
    def verdict(self) -> Verdict:
        """Whether it is as near as it has to be."""
        if self.ours is None and not self.per_seed:
            return "not run"
        if self.study is None or self.within is None:
            return "not judged"
        if self.within == SEEDS:
            return "inside" if self._seeds_hold_the_study() else "outside"
        if self.difference is None:
            return "not judged"
        # Both come from decimals, so that 0.06 apart may be a rounding more.
        return "inside" if abs(self.difference) <= self.within + 1e-9 else "outside"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        study = list(self.study) if isinstance(self.study, tuple) else self.study
        return {
            "row": self.row,
            "quantity": self.quantity,
            "unit": self.unit,
            "study": study,
            "ours": self.ours,
            "difference": self.difference,
            "difference_is": "absolute" if self.is_absolute else "relative",
            "per_seed": list(self.per_seed),
            "kind": self.kind,
            "variant": self.variant,
            "within": self.within,
            "verdict": self.verdict,
            "is_goal": self.is_goal,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Row:
        """What `to_json` gave.

        Raises:
            InvalidArgumentError: It is something else.
        """
        study = content.get("study")
        try:
            return cls(
                row=str(content["row"]),
                quantity=str(content["quantity"]),
                unit=str(content["unit"]),
                study=(study[0], study[1]) if isinstance(study, list) else study,
                ours=content["ours"],
                per_seed=tuple(content["per_seed"]),
                kind=content["kind"],
                note=content["note"],
                variant=content["variant"],
                within=content["within"],
                is_goal=content["is_goal"],
            )
        except (KeyError, TypeError, IndexError) as error:
            raise InvalidArgumentError(f"not a row: {error!r}", value=content) from None

    def _bounds(self) -> tuple[float, float]:
        if self.study is None:
            return math.nan, math.nan
        if not isinstance(self.study, tuple):
            return self.study, self.study
        low, high = self.study
        return -math.inf if low is None else low, math.inf if high is None else high

    def _seeds_hold_the_study(self) -> bool:
        known = [one for one in self.per_seed or (self.ours,) if one is not None]
        low, high = self._bounds()
        highest = math.inf if None in self.per_seed else max(known)
        return min(known, default=math.inf) <= low and high <= highest


def seed_row(
    row: str,
    quantity: str,
    unit: str,
    study: StudyValue,
    per_seed: Sequence[float | None],
    **others: Any,
) -> Row:
    """A row whose `ours` is the mean over the seeds that have a value; None if none has."""
    known = [one for one in per_seed if one is not None]
    ours = math.fsum(known) / len(known) if known else None
    return Row(row, quantity, unit, study, ours, tuple(per_seed), **others)
