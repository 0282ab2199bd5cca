"""The study's points beside ours: what agrees, what differs, and the most that survive."""

from __future__ import annotations

import json

import pytest

from server.capacity.cliff import study_report
from server.capacity.cliff.protocol import Cell, Outcome
from server.capacity.cliff.reasons import reasons
from server.capacity.cliff.variants import Variant, variants


def outcome(cell: Cell, kept: int) -> Outcome:
    return Outcome(cell, (kept, kept), kept, 0, 8.31 if cell.warm_up == "batch" else 8.0)


def variant(most_kept: int, retention_tokens=None, is_study_version=False) -> Variant:
    """An engine that keeps all up to `most_kept` sessions and none beyond."""
    made = Variant(is_study_version, retention_tokens, version="0.32.0")
    for cell in made.cells((4270, 4396), range(27, 33), num_rounds=2):
        made.outcomes.append(outcome(cell, cell.num_sessions * (cell.num_sessions <= most_kept)))
    return made


def test_the_most_that_survive_is_where_the_first_loss_comes():
    made = variant(29)
    assert made.most_kept(4270, "batch") == 29
    assert variant(20).most_kept(4270, "batch") is None
    # A lucky number beyond a loss does not count.
    made.outcomes = [outcome(item.cell, item.kept) for item in made.outcomes]
    made.outcomes[1] = outcome(made.outcomes[1].cell, 0)
    assert made.most_kept(4270, "batch") == 27


def test_points_that_differ_from_the_study_are_marked():
    shown = study_report.render([variant(29)], (4270, 4396), wall_s=1.0)
    marked = [line for line in shown.splitlines() if line.endswith(" *")]
    assert len(marked) == 1
    assert "4396 blocks, batch, N=29" in marked[0]
    assert variant(29).agreeing_points() == (6, 7)
    assert variant(28).agreeing_points() == (6, 7)


def test_json_has_a_row_for_every_published_point_and_engine():
    both = [variant(29), variant(28, is_study_version=True)]
    content = json.loads(json.dumps(study_report.to_json(both, wall_s=3.25), allow_nan=False))
    assert len(content["rows"]) == 2 * 7
    row = next(row for row in content["rows"] if row["row"] == "4396_sequential_warm_N29")
    assert (row["study"], row["ours"], row["quantity"]) == (1.0, 1.0, "full-prefix survival")


def test_every_difference_has_its_reason_with_the_sweep_s_figures():
    text = " ".join(reasons([variant(29), variant(28, is_study_version=True)]))
    for word in (
        "align",
        "prefix_cache_retention_interval",
        "8.31 against 8.00",
        "6 of 7",
        "29 sessions",
    ):
        assert word in text


@pytest.mark.parametrize(
    "compared",
    [
        [variant(29)],
        [variant(28), variant(28, is_study_version=True)],
        [variant(29, retention_tokens=0), variant(28, is_study_version=True)],
    ],
)
def test_nothing_is_explained_that_the_sweep_does_not_show(compared):
    assert "freed blocks without a hash" not in " ".join(reasons(compared))


@pytest.mark.parametrize(("folder", "count"), [(None, 5), ("engine", 8)])
def test_the_study_s_version_is_compared_where_its_folder_is_given(tmp_path, folder, count):
    assert len(variants(None if folder is None else tmp_path / folder)) == count
