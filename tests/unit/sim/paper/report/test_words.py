from __future__ import annotations

import pytest

from sim.paper.report import words
from sim.paper.rows import SEEDS, Row, StudyValue


def row(study: StudyValue, ours: float | None, unit: str = "1/s", **others: object) -> Row:
    return Row("N20", "rps", unit, study, ours, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (1_450_000.0, "1,450,000"),
        (2.3774, "2.377"),
        (0.99949, "0.9995"),
        (160.0, "160"),
        (0.0009, "0.0009"),
        (1, "1"),
    ],
)
def test_numbers_have_four_digits_that_count(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((2.40, 2.42), "2.4 – 2.42"),
        ((32, None), "≥ 32"),
        ((None, 7), "≤ 7"),
        ((360, 360), "360"),
        (None, "–"),
    ],
)
def test_a_range_shows_its_ends(value: StudyValue, text: str) -> None:
    assert words.study(value) == text


def test_differences_show_their_sign_and_what_they_are() -> None:
    assert words.difference(row(2.0, 1.9)) == "-5.0%"
    assert words.difference(row(0.98, 1.0, "share")) == "+0.02"
    assert words.difference(row(0.98, 0.980001, "share")) == "0"
    assert words.difference(row(0.98, 1.98, "share")) == "+1"
    assert words.difference(row((2.0, 2.2), 2.1)) == "in range"
    assert words.difference(row(2.0, 2.0)) == "0"
    assert words.difference(row(2.0, None)) == "–"


def test_seeds_without_a_value_are_counted_apart() -> None:
    assert words.seeds(row(None, 1.5, per_seed=(1.0, None, 2.0))) == "1 – 2 (2/3)"
    assert words.seeds(row(None, 1.5, per_seed=(1.0, 2.0))) == "1 – 2 (2)"
    assert words.seeds(row(None, 1.5)) == "–"


def test_a_tolerance_says_whether_it_is_a_ratio() -> None:
    assert words.allowed(row(2.0, 2.0, within=0.06)) == "±6%"
    assert words.allowed(row(0.9, 0.9, "index", within=0.03)) == "±0.03"
    assert words.allowed(row(2.0, 2.0, within=0.0)) == "equal"
    assert words.allowed(row((2.0, 3.0), 2.0, within=0.0)) == "in range"
    assert words.allowed(row(2.0, 2.0, within=SEEDS)) == "study in seeds' range"
