from __future__ import annotations

import pytest

from sim.paper.cases.action_capacity import (
    QUICK_COMPARED,
    QUICK_SIZES,
    SPREAD,
    STUDY_SIZES,
    Curve,
    Effort,
    capacity,
    capacity_rows,
    churn,
    starved_rows,
)

CURVE = Curve(20, 1, "paced")


def row(robots: int, worst: float, hz: int = 20) -> dict[str, object]:
    return {
        "hz": hz,
        "gpus": 1,
        "discipline": "paced",
        "robots": robots,
        "worst_starved_fraction": worst,
    }


def test_capacity_is_the_largest_size_whose_worst_robot_starves_at_most_1_percent() -> None:
    rows = [row(1, 0.0), row(7, 0.01), row(8, 0.011), row(32, 0.0, hz=10)]
    assert capacity(rows, CURVE) == 7
    assert capacity(rows, CURVE, STUDY_SIZES) == 1


def test_capacity_is_unknown_if_no_size_passes() -> None:
    assert capacity([row(1, 0.5)], CURVE) is None


def test_capacity_of_one_seed_asks_only_that_seed() -> None:
    points = [{**row(16, 0.02), "worst_starved_fraction_by_seed": [0.0, 0.02]}]
    assert [capacity(points, CURVE, None, seed) for seed in (0, 1)] == [16, None]


def test_curves_of_another_spread_are_another_curve() -> None:
    points = [row(7, 0.0), {**row(8, 0.0), "latency_spread": SPREAD}]
    assert capacity(points, CURVE) == 7


def test_rows_are_named_as_in_the_study_and_only_its_own_way_of_counting_is_judged() -> None:
    effort = Effort(QUICK_SIZES, QUICK_COMPARED, 1.0, (0, 1))
    points = [
        {
            "hz": 20,
            "gpus": 1,
            "discipline": "study",
            "robots": robots,
            "worst_starved_fraction": worst,
            "worst_starved_fraction_by_seed": [worst, worst],
            "starved_fraction": worst,
            "starved_fraction_by_seed": [worst, worst],
        }
        for robots, worst in ((1, 0.0), (8, 0.36))
    ]
    rows = capacity_rows(points, effort)
    assert {row.row for row in rows} == {"20Hz_D0.25s", "10Hz_D0.5s", "5Hz_D1.0s"}
    first = rows[0]
    assert (first.quantity, first.study, first.ours, first.verdict) == (
        "robots_1gpu",
        1,
        1.0,
        "inside",
    )
    assert {row.verdict for row in rows if row.variant.startswith("paced")} == {"not judged"}
    assert [(row.row, row.verdict) for row in starved_rows(points)] == [
        ("20Hz_D0.25s_1gpu_N1", "inside"),
        ("20Hz_D0.25s_1gpu_N8", "inside"),
    ]


@pytest.mark.parametrize("size", [1, 6])
def test_in_churn_one_robot_leaves_or_joins_every_interval_and_never_more_than_size_are_there(
    size: int,
) -> None:
    plans = churn(size, 20, 100.0, 10.0)
    changes = sorted(
        [p.joins_s for p in plans if p.joins_s > 0] + [p.leaves_s for p in plans if p.leaves_s]
    )
    assert changes == [10.0 * place for place in range(1, 10)]
    for at_s in range(5, 100, 10):
        there = [
            p for p in plans if p.joins_s <= at_s and (p.leaves_s is None or at_s < p.leaves_s)
        ]
        assert size - 1 <= len(there) <= size
