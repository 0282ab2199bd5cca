from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from sim.paper.report import words
from sim.paper.rows import SEEDS, Row, StudyValue, seed_row

FINITE = st.integers(-(10**9), 10**9).map(lambda number: number / 1000)
ENDS = st.one_of(st.none(), FINITE)


def row(study: StudyValue, ours: float | None, unit: str = "1/s", **others: object) -> Row:
    return Row("N20", "rps", unit, study, ours, **others)  # type: ignore[arg-type]


def test_a_rate_is_compared_by_ratio_and_a_share_by_difference() -> None:
    assert row(2.0, 1.9).difference == pytest.approx(-0.05)
    assert row(0.98, 1.0, "share").difference == pytest.approx(0.02)
    assert row(0.947, 0.95, "index").difference == pytest.approx(0.003)


def test_a_range_of_the_studys_runs_is_compared_at_its_nearer_end() -> None:
    assert row((2.0, 2.5), 2.2).difference == 0.0
    assert row((2.0, 2.5), 1.0).difference == pytest.approx(-0.5)
    assert row((2.0, 2.5), 3.0).difference == pytest.approx(0.2)
    assert row((32, None), 60).difference == 0.0
    assert row((32, None), 16).difference == pytest.approx(-0.5)


def test_beside_a_zero_of_the_study_the_difference_is_absolute() -> None:
    assert row(0.0, 3.0, "").difference == 3.0


def test_unknown_is_no_difference_and_what_was_not_run_is_told_so() -> None:
    assert row(None, 1.0).difference is None
    assert row(None, 1.0, within=0.06).verdict == "not judged"
    assert row(2.0, None, within=0.06).difference is None
    assert row(2.0, None, within=0.06).verdict == "not run"
    assert row(2.0, 2.0).verdict == "not judged"


def test_a_row_is_judged_by_its_own_tolerance() -> None:
    assert row(1.0, 1.06, within=0.06).verdict == "inside"
    assert row(1.0, 1.061, within=0.06).verdict == "outside"
    assert row(0.95, 0.979, "index", within=0.03).verdict == "inside"
    assert row(0.95, 0.9801, "index", within=0.03).verdict == "outside"


def test_a_collapse_row_is_inside_where_the_studys_value_lies_in_the_seeds_range() -> None:
    assert seed_row("N32", "rps", "1/s", 0.6, [0.5, None, 0.7], within=SEEDS).verdict == "inside"
    assert seed_row("N32", "rps", "1/s", 0.6, [0.61, 0.7], within=SEEDS).verdict == "outside"
    touching = seed_row("N28", "rps", "1/s", (0.66, 0.83), [0.8, 1.0], within=SEEDS)
    assert touching.verdict == "outside"
    around = seed_row("N28", "rps", "1/s", (0.66, 0.83), [0.6, 1.0], within=SEEDS)
    assert around.verdict == "inside"


def test_a_seed_that_never_got_there_leaves_the_upper_end_open() -> None:
    def verdict(study: tuple[float, float], *per_seed: float | None) -> str:
        return seed_row("N24", "collapse_minute", "min", study, per_seed, within=SEEDS).verdict

    assert verdict((8.0, 20.0), 7.0, 12.0) == "outside"
    assert verdict((8.0, 20.0), 7.0, 12.0, None) == "inside"
    assert verdict((8.0, 20.0), 9.0, None) == "outside"
    assert verdict((8.0, 20.0), None, None) == "outside"


def test_a_goal_is_not_called_a_figure_of_the_study() -> None:
    row = Row("all_N48", "jain", "index", (0.95, None), 0.97, within=0.0, is_goal=True)
    assert words.beside(row) == "goal ≥ 0.95"
    assert Row.from_json(row.to_json()) == row


def test_a_seeds_row_leaves_seeds_without_a_value_out_of_its_mean() -> None:
    assert seed_row("N24", "s", "s", None, [1.0, None, 2.0]).ours == 1.5
    assert seed_row("N24", "s", "s", None, [None]).ours is None


@given(st.one_of(st.none(), FINITE, st.tuples(ENDS, ENDS)), st.one_of(st.none(), FINITE))
def test_a_row_survives_its_json_form(study: StudyValue, ours: float | None) -> None:
    made = row(study, ours, per_seed=(ours,), within=0.1, note="why", variant="vLLM 0.32.0")
    text = json.dumps(made.to_json(), allow_nan=False)
    assert Row.from_json(json.loads(text)) == made


@given(FINITE, FINITE, FINITE)
def test_the_difference_is_never_nan_and_has_the_sign_of_ours_beside_the_study(
    one: float, other: float, ours: float
) -> None:
    low, high = sorted((one, other))
    difference = row((low, high), ours).difference
    assert difference is not None
    assert not math.isnan(difference)
    assert (difference == 0.0) >= (low <= ours <= high)
    assert difference <= 0.0 or ours > high
    assert difference >= 0.0 or ours < low


def test_what_is_not_a_row_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="not a row"):
        Row.from_json({"row": "N20"})
