from __future__ import annotations

import pytest

from sim.paper.case import Workplace
from sim.paper.cases import mixed_rates
from sim.paper.cases.mixed_rates import rows_of


def test_rows_take_the_worse_seed_and_keep_both() -> None:
    line = {
        "mix": "two rates",
        "batcher": "paced",
        "worst_starved_fraction": 0.2,
        "worst_starved_fraction_by_seed": [0.1, 0.2],
        "starved_fraction": 0.05,
        "starved_fraction_by_seed": [0.05, 0.04],
        "jain_index": 0.9,
        "jain_index_by_seed": [0.9, 0.95],
    }
    rows = rows_of(line)
    assert [(row.quantity, row.ours, row.per_seed) for row in rows] == [
        ("starved_worst_robot", 0.2, (0.1, 0.2)),
        ("starved_all_robots", 0.05, (0.05, 0.04)),
        ("jain", 0.9, (0.9, 0.95)),
    ]
    assert {row.verdict for row in rows} == {"not judged"}
    assert all(row.row == "two rates: ours" for row in rows)


def test_the_case_leaves_rows_a_picture_and_its_runs(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed_rates, "QUICK_DURATION_S", 2.0)
    monkeypatch.setattr(mixed_rates, "MIXES", mixed_rates.MIXES[:1])
    mixed_rates.run(Workplace(tmp_path, 1, str, quick=True))
    assert (tmp_path / "mixed-rates.json").is_file()
    assert (tmp_path / "mixed-rates.png").is_file()
