"""The study's cliff points beside those of each engine."""

from __future__ import annotations

from server.capacity.cliff import published
from server.capacity.cliff.protocol import Cell, Outcome
from server.capacity.cliff.variants import Variant
from sim.paper.cases import cliff as case


def variant(is_study_version, survivors, pool_blocks=4396, warm_up="batch"):
    """One that keeps all of so many sessions and none of more."""
    found = Variant(is_study_version, None, version="0.17.1" if is_study_version else "0.32.0")
    for num_sessions in range(27, 34):
        kept = num_sessions if num_sessions <= survivors else 0
        cell = Cell(pool_blocks, num_sessions, warm_up)
        found.outcomes.append(Outcome(cell, (kept,), kept, 0, 1.0))
    return found


def test_the_study_s_version_is_held_to_every_point_and_others_are_compared():
    rows = case.point_rows([variant(True, 28), variant(False, 29)])
    verdicts = {(row.row, row.variant[:11]): (row.ours, row.verdict) for row in rows}
    assert verdicts["4396_batch_warm_N29", "vLLM 0.17.1"] == (0.0, "inside")
    assert verdicts["4396_batch_warm_N29", "vLLM 0.32.0"] == (1.0, "not judged")
    run = {row.row for row in rows if row.verdict != "not run"}
    assert run == {f"4396_batch_warm_N{n}" for n in (29, 30, 31)}


def test_one_session_more_on_the_study_s_version_is_outside():
    rows = case.point_rows([variant(True, 29)])
    judged = [row.verdict for row in rows if row.verdict != "not run"]
    assert judged == ["outside", "inside", "inside"]


def test_every_point_of_the_study_that_its_version_was_not_run_at_is_counted_as_not_run():
    absent = [row for row in case.point_rows([variant(False, 29)]) if row.verdict == "not run"]
    assert [row.row for row in absent] == [point.row for point in published.POINTS]
    assert {row.note for row in absent} == {"vLLM 0.17.1 was not here"}

    held = [row for row in case.point_rows([variant(True, 29)]) if row.verdict == "not run"]
    assert len(held) == len(published.POINTS) - 3
    assert {row.note for row in held} == {"not among the sessions of this run"}


def test_a_pool_that_loses_even_the_fewest_sessions_was_run():
    (row,) = [row for row in case.most_rows([variant(True, 20)]) if row.row == "4396_batch_warm"]
    assert (row.ours, row.verdict) == (None, "not judged")
    assert row.note == "fewer than the fewest tried"


def test_the_most_sessions_that_survive_are_a_row_for_each_pool_and_order():
    rows = case.most_rows([variant(True, 28)])
    assert {row.row: row.ours for row in rows}["4396_batch_warm"] == 28.0
