from __future__ import annotations

import pytest

from sim.paper.cases.action_capacity import STUDY_SIZES, Curve, capacity, churn

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
